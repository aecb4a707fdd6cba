import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import type { Spawned } from "../blocks/SubagentBlock";
import type { Entry, SessionRow } from "../shapes";
import { markOf } from "../sidebar/Dot";

const DOTS = { completed: "ok", failed: "bad", cancelled: "", interrupted: "" } as const;

/** Who works on this: the session's own agent, and those that it started. */
export function Agents({ session, entries, busy }: { session: SessionRow; entries: readonly Entry[]; busy: boolean }) {
  const here = useHere();
  const children = entries.flatMap(entry =>
    entry.blocks.filter(block => block.kind === "subagent").map(block => block.data as unknown as Spawned),
  );
  const parent = session.parent_session_id;
  if (children.length === 0 && !parent) return null;
  return (
    <section>
      <h2>
        Agents <span className="tnum">{children.length + 1}</span>
      </h2>
      <ul className="tree">
        <li>
          <span className={`dot ${busy ? "work" : markOf(session) === "need" ? "need" : ""}`} aria-hidden="true" />
          <b>{visible(session.agent)}</b>
          <span className="task">{busy ? "working" : "idle"}</span>
        </li>
        {children.map(child => (
          <li key={child.child_session_id}>
            <span className={`dot ${child.outcome ? DOTS[child.outcome] : "work"}`} aria-hidden="true" />
            <button type="button" className="as-link" onClick={() => here.go(child.child_session_id)}>
              <b>{visible(child.agent)}</b>
            </button>
            <span className="task">{child.outcome ?? "working"}</span>
          </li>
        ))}
      </ul>
      {parent ? (
        <button type="button" className="btn quiet mini" onClick={() => here.go(parent)}>
          To the session that started this one
        </button>
      ) : null}
    </section>
  );
}
