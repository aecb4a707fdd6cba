import { useEffect, useState } from "react";
import { useAnnounce } from "../app/announce";
import { type ContextUsage as Usage, useHere } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import type { SessionRow } from "../shapes";
import { about } from "../text/format";

const NAMES: Record<string, string> = {
  tool_results: "Tool results",
  conversation: "Conversation",
  files: "Files in view",
  instructions: "Instructions",
};
const FULL = 0.8;

/** How much of the model's window is used, and for what. From four fifths on, summing up is offered. */
export function Context({ session, busy }: { session: SessionRow; busy: boolean }) {
  const here = useHere();
  const say = useAnnounce();
  const usage = useUsage(session);
  if (!usage?.limit) return null;
  const { tokens, limit, categories = [] } = usage;
  const share = tokens / limit;
  const compact = () => {
    here.daemon.ask("POST", `/v1/sessions/${session.id}/compact`, {}).then(
      () => say("The earlier conversation is being summed up"),
      error => say(wordsOf(error), "alert"),
    );
  };
  return (
    <section className="context">
      <h2>
        Context{" "}
        <span className="tnum">
          {about(tokens)} of {about(limit)}
        </span>
      </h2>
      <div
        className="ctx"
        role="meter"
        aria-label="Context used"
        aria-valuemin={0}
        aria-valuemax={limit}
        aria-valuenow={tokens}
        aria-valuetext={`${Math.round(share * 100)} percent used`}
      >
        {(categories.length > 0 ? categories : [{ name: "conversation", tokens }]).map((one, place) => (
          <i key={one.name} className={`c${(place % 4) + 1}`} style={{ width: `${(one.tokens / limit) * 100}%` }} />
        ))}
      </div>
      <div className="key tnum">
        {categories.map((one, place) => (
          <div key={one.name}>
            <i className={`c${(place % 4) + 1}`} />
            {NAMES[one.name] ?? one.name}
            <b>{about(one.tokens)}</b>
          </div>
        ))}
      </div>
      {share >= FULL && session.capabilities?.compact !== false ? (
        <button type="button" className="btn mini" disabled={busy} onClick={compact}>
          Sum up now
        </button>
      ) : null}
    </section>
  );
}

/** What the newest `context_usage` said; the transcript has no block for it. */
function useUsage(session: SessionRow): Usage | null {
  const here = useHere();
  const known = (session as { context?: Usage }).context;
  const [usage, setUsage] = useState<Usage | null>(known ?? null);
  useEffect(() => here.onUsage(setUsage), [here]);
  return usage ?? known ?? null;
}
