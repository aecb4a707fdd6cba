import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { ApprovalCard } from "../cards/ApprovalCard";
import { Markdown } from "../markdown/Markdown";
import type { Block, Plan } from "../shapes";
import { Icon } from "../ui/Icon";
import { whom } from "./ApprovalRecord";
import { PlanSteps } from "./PlanSteps";

const STATUS: Record<Plan["status"], string> = {
  planned: "Proposed",
  approved: "Approved",
  executing: "Under way",
  completed: "Completed",
  rejected: "Rejected",
};

/** The running list of a turn. While it waits to be reviewed, the review is the card. */
export function PlanBlock({ block }: { block: Block }) {
  const here = useHere();
  const plan = (block.data as { plan: Plan }).plan;
  const approval = block.call?.approval;
  if (approval?.status === "waiting" && block.call && !here.readOnly) return <ApprovalCard approvalId={approval.id} call={block.call} />;
  const said = approval?.status === "granted" ? `Approved ${whom(approval.by)}` : STATUS[plan.status];
  return (
    <section className="cardx plan" aria-label="Plan">
      <header>
        <Icon name="plan" />
        <h2>Plan</h2>
        <span className="meta">{said}</span>
      </header>
      {plan.text ? (
        <div className="pad prose">
          <Markdown text={plan.text} />
        </div>
      ) : null}
      <PlanSteps items={plan.items} />
      {approval?.reason ? <p className="pad quote">“{visible(approval.reason)}”</p> : null}
    </section>
  );
}
