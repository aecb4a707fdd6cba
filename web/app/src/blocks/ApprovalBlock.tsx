import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { ApprovalCard } from "../cards/ApprovalCard";
import type { ApprovalAsk, Block, CallApproval } from "../shapes";
import { ApprovalRecord } from "./ApprovalRecord";

/** An ask that belongs to no call: trust, a budget, a sign-in. */
export function ApprovalBlock({ block }: { block: Block }) {
  const here = useHere();
  const data = block.data as unknown as ApprovalAsk & { approval?: CallApproval };
  if (data.approval?.status === "waiting" && !here.readOnly) return <ApprovalCard approvalId={data.approval_id} call={null} />;
  return (
    <div className="line">
      <span>{visible(data.reason ?? data.subject)}</span>
      {data.approval ? <ApprovalRecord approval={data.approval} /> : null}
    </div>
  );
}
