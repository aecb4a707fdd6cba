import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import { Dialog } from "../ui/Dialog";
import { At } from "../ui/Time";

interface Hit {
  session_id: string;
  session_title: string;
  message_id: string;
  seq: number;
  role: string;
  ts: string;
  before: string;
  match: string;
  after: string;
}

const WAIT_MS = 120;

/** What was said and done, in one session or in all. A hit leads to its place. */
export function Search({ session, close }: { session?: string | undefined; close: () => void }) {
  const page = usePage();
  const [query, setQuery] = useState("");
  const [here, setHere] = useState(session !== undefined);
  const [found, setFound] = useState<{ hits: Hit[]; query: string; error?: string }>({ hits: [], query: "" });
  useEffect(() => {
    if (query.trim() === "") return setFound({ hits: [], query: "" });
    let late = false;
    const timer = setTimeout(() => {
      const asked = new URLSearchParams({ q: query, limit: "50", ...(here && session ? { session } : {}) });
      page.daemon.ask<{ hits: Hit[] }>("GET", `/v1/search?${asked}`).then(
        answer => late || setFound({ hits: answer.hits, query }),
        error => late || setFound({ hits: [], query, error: wordsOf(error) }),
      );
    }, WAIT_MS);
    return () => {
      late = true;
      clearTimeout(timer);
    };
  }, [query, here, session, page]);
  return (
    <Dialog label="Search" close={close} bare>
      <input
        type="search"
        aria-label="Search what was said"
        placeholder="Search what was said and done"
        value={query}
        onChange={event => setQuery(event.target.value)}
        autoComplete="off"
      />
      {session ? (
        <label className="only-here">
          <input type="checkbox" checked={here} onChange={event => setHere(event.target.checked)} /> Only this session
        </label>
      ) : null}
      <ol className="cmds hits" aria-label="Found">
        {found.hits.map(hit => (
          <li key={`${hit.session_id}:${hit.seq}:${hit.message_id}`}>
            <button
              type="button"
              onClick={() => {
                close();
                page.go(hit.session_id, hit.message_id);
              }}
            >
              <span>
                {visible(hit.before, { prose: true })}
                <mark>{visible(hit.match, { prose: true })}</mark>
                {visible(hit.after, { prose: true })}
              </span>
              <small>
                {visible(hit.session_title)} · {hit.role === "user" ? "you" : visible(hit.role)} · <At at={hit.ts} />
              </small>
            </button>
          </li>
        ))}
      </ol>
      <p className="eyebrow" role="status">
        {found.error ? visible(found.error) : found.query !== "" && found.hits.length === 0 ? "Nothing found" : ""}
      </p>
    </Dialog>
  );
}
