import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { ApprovalCard } from "../cards/ApprovalCard";
import { DiffFiles } from "../diff/DiffFiles";
import type { Block, Call } from "../shapes";
import { duration } from "../text/format";
import { Fold } from "../ui/Fold";
import { Icon } from "../ui/Icon";
import { Since } from "../ui/Time";
import { ApprovalRecord } from "./ApprovalRecord";
import { InterruptedWord } from "./Interrupted";
import { Output } from "./Output";
import type { Tail } from "./tail";
import { argument, errorWord, outputOf, STATES, stateOf, verb } from "./toolWords";

/** A call: one row in every state. It opens itself while it prints, where it failed, and where the model saw less than there was. */
export function ToolBlock({ block, tail }: { block: Block; tail: Tail }) {
  const here = useHere();
  const call = block.call as Call;
  if (call.approval?.status === "waiting" && !here.readOnly) return <ApprovalCard approvalId={call.approval.id} call={call} />;
  const state = stateOf(call);
  const printed = outputOf(
    block,
    Object.values(tail)
      .map(piece => piece.text)
      .join(""),
  );
  const opens = state === "error" || state === "truncated" || state === "agent-callback" || (state === "pending" && printed !== "");
  return (
    <Fold
      id={call.id}
      className={`tool ${state}`}
      data-state={state}
      data-call={call.id}
      open={opens && call.result?.error?.code !== "tool_denied"}
      summary={
        <>
          <span className="st">
            <Icon name={STATES[state].icon} spin={state === "pending"} />
          </span>
          <span className="sr">{STATES[state].said}</span>
          <span className="verb">{visible(verb(call))}</span>
          <span className="arg">{visible(argument(call))}</span>
          <Meta call={call} state={state} />
        </>
      }
    >
      <ToolBody call={call} printed={printed} />
    </Fold>
  );
}

function Meta({ call, state }: { call: Call; state: string }) {
  const error = call.result?.error;
  const word = state === "error" && error ? errorWord(error.code) : state === "truncated" ? "truncated" : null;
  const time =
    call.duration_ms !== undefined && call.started_at ? (
      duration(call.duration_ms)
    ) : call.started_at && state === "pending" ? (
      <Since from={call.started_at} say={duration} />
    ) : null;
  return (
    <span className="meta tnum">
      {state === "interrupted" ? <InterruptedWord /> : word ? <span className="tag">{word}</span> : null}
      {(word || state === "interrupted") && time ? " · " : null}
      {time}
    </span>
  );
}

function ToolBody({ call, printed }: { call: Call; printed: string }) {
  const patch = typeof call.input.patch === "string" ? call.input.patch : null;
  const error = call.result?.error;
  return (
    <div className="body">
      {call.approval && call.approval.status !== "waiting" ? <ApprovalRecord approval={call.approval} /> : null}
      {patch !== null ? <DiffFiles patch={patch} /> : null}
      {error && !printed.includes(error.message) ? <p className="note">{visible(error.message, { prose: true })}</p> : null}
      <Output call={call} text={printed} />
    </div>
  );
}
