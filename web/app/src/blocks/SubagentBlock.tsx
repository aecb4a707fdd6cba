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

/** The child sessions that calls started side by side; the transcript of each is a click away, its own children stand below it. */
export function SubagentBlock({ blocks }: { blocks: Block[] }) {
  const children = blocks.map(block => block.data as unknown as Spawned);
  return (
    <section className="cardx subagent" aria-label="Sub-agents">
      <header>
        <Icon name="tree" />
        <h2>{children.length === 1 ? "Sub-agent" : "Sub-agents"}</h2>
        <span className="meta tnum">{tally(children)}</span>
      </header>
      <ul className="tree">
        {children.map(child => (
          <Child key={child.child_session_id} child={child} />
        ))}
      </ul>
    </section>
  );
}

function Child({ child }: { child: Spawned }) {
  const here = useHere();
  const { outcome } = child;
  return (
    <>
      <li data-child={child.child_session_id} data-outcome={outcome ?? "running"}>
        <span className={`st ${outcome ?? "running"}`}>
          <Icon name={outcome ? MARK[outcome] : "ring"} spin={!outcome} />
        </span>
        <b>{visible(child.agent)}</b>
        <span className="task">{visible(child.task, { prose: true })}</span>
        <span className="meta tnum">
          {[WORDS[outcome ?? "running"], spent(child)].filter(Boolean).join(" · ")}
          {here.readOnly ? null : (
            <button type="button" className="btn quiet mini" onClick={() => here.go(child.child_session_id)}>
              Open
            </button>
          )}
        </span>
        {child.summary ? <span className="said">{visible(child.summary, { prose: true })}</span> : null}
      </li>
      {here.readOnly ? null : <SubagentChildren parent={child.child_session_id} depth={2} ended={outcome !== undefined} />}
    </>
  );
}

const WORDS = { running: "running", completed: "done", failed: "failed", cancelled: "stopped", interrupted: "interrupted" } as const;

function tally(children: Spawned[]): string {
  const words = children.map(child => WORDS[child.outcome ?? "running"]);
  return [...new Set(words)].map(word => `${words.filter(one => one === word).length} ${word}`).join(" · ");
}

function spent({ usage, cost }: Spawned): string {
  const words = usage ? [`${about(usage.input_tokens + usage.output_tokens)} tokens`] : [];
  if (cost) words.push(money(cost.amount, cost.currency));
  return words.join(" · ");
}
