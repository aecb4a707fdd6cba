import { Markdown } from "../markdown/Markdown";
import type { Block, Cost } from "../shapes";
import { duration, money, plural } from "../text/format";
import { Icon } from "../ui/Icon";

interface Finalized {
  summary: string;
  verified: boolean | null;
  files?: unknown[] | number;
  duration_ms?: number;
  cost?: Cost;
}

/** The agent's own last word on a task: the result, whether it was checked, what it took. */
export function FinalizeBlock({ block }: { block: Block }) {
  const { summary, verified, files, duration_ms, cost } = block.data as unknown as Finalized;
  const changed = Array.isArray(files) ? files.length : (files ?? 0);
  return (
    <section className="cardx final" aria-label="Task finished">
      <header>
        <Icon name="flag" />
        <h2>Finished</h2>
        {duration_ms === undefined ? null : <span className="meta tnum">{duration(duration_ms)}</span>}
      </header>
      <div className="pad prose">
        <Markdown text={summary} />
        <dl>
          <Fact name="Checks">{verified === null || verified === undefined ? "Not verified" : verified ? "Passed" : "Failed"}</Fact>
          <Fact name="Changed">{plural(changed, "file")}</Fact>
          {cost ? <Fact name="Cost">{money(cost.amount, cost.currency)}</Fact> : null}
        </dl>
      </div>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="tnum">{children}</dd>
    </div>
  );
}
