import { visible } from "@palaver/client";
import type { Arming } from "../cards/arming";
import { headline } from "../cards/askWords";
import { Icon } from "../ui/Icon";
import type { OpenNow } from "./here";

/** On a narrow screen: the oldest thing that waits, above the composer. It leads there and answers nothing. */
export function NeedBar({ open, agent, arming }: { open: OpenNow; agent: string; arming: Arming }) {
  const approval = open.approvals[0];
  const question = open.questions[0];
  if (!approval && !question) return null;
  const review = () => {
    const card = arming.all()[0];
    card?.element.scrollIntoView({ block: "nearest" });
    card?.element.focus({ preventScroll: true });
  };
  return (
    <button type="button" className="needbar" onClick={review}>
      <Icon name={approval ? "shield" : "ask"} />
      {approval ? headline(approval, agent) : `${visible(agent)} has a question`}
      <span>Review</span>
    </button>
  );
}
