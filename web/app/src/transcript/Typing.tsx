import { visible } from "@palaver/client";
import { argument, verb } from "../blocks/toolWords";
import type { Entry, OpenTurn } from "../shapes";

/** That the agent works, and at what. It stands at the end for as long as the turn is open. */
export function Typing({
  turn,
  entries,
  agent,
  waiting,
}: {
  turn: OpenTurn | undefined;
  entries: readonly Entry[];
  agent: string;
  waiting: boolean;
}) {
  if (!turn) return null;
  return (
    <div className="typing" data-now="">
      <i aria-hidden="true">
        <b />
      </i>
      <span>
        {visible(agent)} {turn.cancel_requested ? "is stopping" : waiting ? "waits for you" : `is working${doing(turn, entries)}`}
      </span>
    </div>
  );
}

function doing(turn: OpenTurn, entries: readonly Entry[]): string {
  const last = entries[entries.length - 1];
  if (last?.turn_id !== turn.id) return "";
  const pending = last.blocks.find(block => block.kind === "tool" && block.call?.state === "pending" && block.call.started_at);
  if (pending?.call) return visible(` · ${verb(pending.call)} ${argument(pending.call)}`.slice(0, 80));
  const block = last.blocks[last.blocks.length - 1];
  return block?.kind === "thinking" && !block.ended_at ? " · thinking" : "";
}
