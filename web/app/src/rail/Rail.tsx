import { visible } from "@palaver/client";
import { memo } from "react";
import { type OpenNow, useHere } from "../app/here";
import { PlanSteps } from "../blocks/PlanSteps";
import { headline } from "../cards/askWords";
import { Counts } from "../diff/Counts";
import type { ChangedFile, Entry, Plan, SessionRow } from "../shapes";
import { stopwatch } from "../text/format";
import { Icon } from "../ui/Icon";
import { Since } from "../ui/Time";
import { Agents } from "./Agents";
import { Context } from "./Context";
import { Spent } from "./Spent";

/** What is going on here, beside the conversation. */
export const Rail = memo(function Rail({
  session,
  entries,
  open,
}: {
  session: SessionRow | null;
  entries: readonly Entry[];
  open: OpenNow;
}) {
  return (
    <aside className="rail" aria-label="Session details">
      <Waiting open={open} />
      <PlanNow entries={entries} />
      <Changes entries={entries} />
      {session ? <Agents session={session} entries={entries} busy={open.turn !== undefined} /> : null}
      {session ? <Context session={session} busy={open.turn !== undefined} /> : null}
      {session ? <Spent session={session} /> : null}
    </aside>
  );
});

function Waiting({ open }: { open: OpenNow }) {
  const here = useHere();
  const { approvals, questions } = open;
  if (approvals.length + questions.length === 0) return null;
  const reveal = (id: string) => {
    const card = here.arming.all().find(one => one.id === id);
    card?.element.scrollIntoView({ block: "nearest" });
    card?.element.focus({ preventScroll: true });
  };
  const since = (id: string) => {
    const from = here.askedAt(id);
    return from ? <Since from={from} say={stopwatch} /> : null;
  };
  return (
    <section className="needs">
      <h2>Waiting for you</h2>
      {approvals.map(ask => (
        <button key={ask.approval_id} type="button" onClick={() => reveal(ask.approval_id)}>
          <Icon name="shield" />
          <span>{headline(ask, here.agent)}</span>
          <small>{since(ask.approval_id)}</small>
        </button>
      ))}
      {questions.map(ask => (
        <button key={ask.question_id} type="button" onClick={() => reveal(ask.question_id)}>
          <Icon name="ask" />
          <span>{visible(ask.questions[0]?.header || ask.questions[0]?.text || "A question")}</span>
          <small>{since(ask.question_id)}</small>
        </button>
      ))}
    </section>
  );
}

function PlanNow({ entries }: { entries: readonly Entry[] }) {
  const block = lastBlock(entries, "plan");
  if (!block) return null;
  const { items } = (block.data as { plan: Plan }).plan;
  const done = items.filter(item => item.status === "done").length;
  return (
    <section>
      <h2>
        Plan{" "}
        <span className="tnum">
          {done} of {items.length}
        </span>
      </h2>
      <PlanSteps items={items} />
    </section>
  );
}

function Changes({ entries }: { entries: readonly Entry[] }) {
  const here = useHere();
  const files = new Map<string, ChangedFile>();
  for (const entry of entries) {
    for (const block of entry.blocks) {
      if (block.kind !== "change_report") continue;
      for (const file of (block.data as unknown as { files: ChangedFile[] }).files) {
        const before = files.get(file.path);
        files.set(file.path, before ? { ...file, added: before.added + file.added, removed: before.removed + file.removed } : file);
      }
    }
  }
  if (files.size === 0) return null;
  const all = [...files.values()];
  return (
    <section>
      <h2>
        Changes
        <span className="tnum">
          <Counts added={sum(all, "added")} removed={sum(all, "removed")} />
        </span>
      </h2>
      <ul className="files tnum">
        {all.slice(0, 12).map(file => (
          <li key={file.path}>
            <span>{visible(file.path)}</span>
            <span className="nums">
              <Counts added={file.added} removed={file.removed} />
            </span>
          </li>
        ))}
      </ul>
      <button type="button" className="btn quiet mini" onClick={() => here.show({ kind: "changes" })}>
        Review {all.length === 1 ? "it" : `all ${all.length}`}
      </button>
    </section>
  );
}

function sum(files: ChangedFile[], key: "added" | "removed"): number {
  return files.reduce((all, file) => all + file[key], 0);
}

function lastBlock(entries: readonly Entry[], kind: string) {
  for (let place = entries.length - 1; place >= 0; place--) {
    const found = entries[place]?.blocks.findLast(block => block.kind === kind);
    if (found) return found;
  }
  return undefined;
}
