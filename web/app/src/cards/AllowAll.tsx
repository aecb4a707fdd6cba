import { visible } from "@palaver/client";
import { useAnnounce } from "../app/announce";
import { useHere, useOpen } from "../app/here";
import { verb } from "../blocks/toolWords";
import { wordsOf } from "../daemon/daemon";
import type { ApprovalAsk } from "../shapes";
import { UNARMED_WORDS } from "./arming";

/** One answer for all that wait for the same tool, once each of them was seen. It stands on the first of them. */
export function AllowAll({ ask }: { ask: ApprovalAsk }) {
  const here = useHere();
  const say = useAnnounce();
  const same = useOpen().approvals.filter(
    one => one.subject === "tool" && ask.subject === "tool" && one.tool_call !== null && one.tool_call.name === ask.tool_call?.name,
  );
  if (same.length < 2 || same[0] !== ask) return null;
  const allow = () => {
    const why = same.map(one => here.arming.unarmed(one.approval_id)).find(one => one !== null);
    if (why) return say(why === "unseen" ? `Look at all ${same.length} first` : UNARMED_WORDS[why]);
    const answers = same.map(one => ({ approval_id: one.approval_id, action: "approve", scope: "once" }));
    here.daemon.ask("POST", "/v1/approvals", { answers }).then(
      () => say(`${answers.length} allowed`),
      error => say(wordsOf(error), "alert"),
    );
  };
  return (
    <button type="button" className="btn quiet all" onClick={allow}>
      Allow all {same.length}: {visible(verb({ name: ask.tool_call?.name ?? "" }))}
    </button>
  );
}
