import { useEffect, useState } from "react";
import { usePage } from "../app/page";
import { useAgents } from "../daemon/agents";
import type { SessionRow } from "../shapes";
import { argumentOffers, commandOffers, mention, type Offer, wanted } from "./complete";

/** What could be completed at the caret. Paths are asked for as they are typed; a late answer to an older question is dropped. */
export function useCompletion(session: SessionRow, text: string, caret: number, focused: boolean) {
  const { daemon } = usePage();
  const agents = useAgents();
  const want = focused ? wanted(text, caret) : null;
  const [files, setFiles] = useState<{ query: string; offers: Offer[] }>({ query: "", offers: [] });
  const [chosen, setChosen] = useState(0);
  const [closed, setClosed] = useState("");
  const asked = want?.kind === "file" ? want.query : null;
  useEffect(() => {
    if (asked === null) return;
    let late = false;
    const query = new URLSearchParams({ workspace: session.workspace_path, q: asked, limit: "12" });
    daemon.ask<{ files: { path: string; kind: string }[] }>("GET", `/v1/workspace/files?${query}`).then(
      answer => {
        const offers = answer.files.map(one => ({
          id: one.path,
          label: one.path,
          detail: one.kind === "folder" ? "folder" : "",
          insert: mention(one.path),
        }));
        if (!late) setFiles({ query: asked, offers });
      },
      () => late || setFiles({ query: asked, offers: [] }),
    );
    return () => {
      late = true;
    };
  }, [asked, daemon, session.workspace_path]);
  const key = want ? `${want.kind}:${want.from}:${want.query}` : "";
  // biome-ignore lint/correctness/useExhaustiveDependencies: another question begins at its first answer
  useEffect(() => setChosen(0), [key]);
  const offers =
    want === null || closed === key
      ? []
      : want.kind === "command"
        ? commandOffers(want.query, session)
        : want.kind === "argument"
          ? argumentOffers(want.command ?? "", want.query, session, agents)
          : files.offers;
  return { want, offers, chosen: Math.min(chosen, Math.max(0, offers.length - 1)), setChosen, close: () => setClosed(key) };
}
