import { visible } from "@palaver/client";
import type { CallApproval } from "../shapes";
import { Icon } from "../ui/Icon";

const SCOPES: Record<string, string> = { once: "once", session: "for this session", workspace: "in this folder from now on" };

/** What became of an ask, in one line. */
export function ApprovalRecord({ approval }: { approval: CallApproval }) {
  return (
    <p className="record">
      <Icon name="shield" />
      <span>
        {words(approval)}
        {approval.reason ? <>: “{visible(approval.reason)}”</> : null}
        {approval.input ? " · with changes" : null}
      </span>
    </p>
  );
}

function words({ status, by, cause, scope }: CallApproval): string {
  if (status === "granted") return `Allowed ${SCOPES[scope ?? "once"] ?? scope} ${whom(by)}`;
  if (cause === "expired") return "Denied: nobody answered in time";
  if (cause === "cancelled") return "Not answered: the turn ended first";
  return `Denied ${whom(by)}`;
}

export function whom(by: string | undefined): string {
  if (by === "policy") return "by a rule";
  return !by || by === "user" ? "by you" : `by you (${visible(by)})`;
}
