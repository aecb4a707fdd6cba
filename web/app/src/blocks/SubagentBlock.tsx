import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import type { Block, Cost, Usage } from "../shapes";
import { about, money } from "../text/format";
import { Icon } from "../ui/Icon";
import { SubagentChildren } from "./SubagentChildren";

export interface Spawned {
  child_session_id: string;
  agent: string;
  task: string;
  outcome?: "completed" | "failed" | "cancelled" | "interrupted";
  summary?: string;
  usage?: Usage;
  cost?: Cost;
}

const MARK = { completed: "check", failed: "bang", cancelled: "x", interrupted: "warn" } as const;

/** A child session that a call started; its own transcript is a click away, its own children below it. */
export function SubagentBlock({ block }: { block: Block }) {
  const here = useHere();
  const child = block.data as unknown as Spawned;
  return (
    <section className="cardx subagent" aria-label={`Sub-agent ${visible(child.agent)}`} data-outcome={child.outcome ?? "running"}>
      <header>
        <Icon name="tree" />
        <h2>Sub-agent</h2>
        <span className="meta tnum">{spent(child)}</span>
      </header>
      <ul className="tree">
        <li>
          <span className={`st ${child.outcome ?? "running"}`}>
            <Icon name={child.outcome ? MARK[child.outcome] : "ring"} spin={!child.outcome} />
          </span>
          <b>{visible(child.agent)}</b>
          <span className="task">{visible(child.task, { prose: true })}</span>
          <span className="meta">
            {child.outcome ?? "running"}
            {here.readOnly ? null : (
              <button type="button" className="btn quiet mini" onClick={() => here.go(child.child_session_id)}>
                Open
              </button>
            )}
          </span>
        </li>
        {here.readOnly ? null : <SubagentChildren parent={child.child_session_id} depth={2} ended={child.outcome !== undefined} />}
      </ul>
      {child.summary ? <p className="pad reply">{visible(child.summary, { prose: true })}</p> : null}
    </section>
  );
}

function spent({ usage, cost }: Spawned): string {
  const words = usage ? [`${about(usage.input_tokens + usage.output_tokens)} tokens`] : [];
  if (cost) words.push(money(cost.amount, cost.currency));
  return words.join(" · ");
}
