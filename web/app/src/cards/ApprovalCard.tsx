import { visible } from "@palaver/client";
import { useState } from "react";
import { useAnnounce } from "../app/announce";
import { useHere, useOpen } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import type { ApprovalAsk, Call } from "../shapes";
import { stopwatch } from "../text/format";
import { Icon } from "../ui/Icon";
import { Since } from "../ui/Time";
import { ApprovalActions, type GivenAnswer } from "./ApprovalActions";
import { ApprovalPreview } from "./ApprovalPreview";
import { headline } from "./askWords";
import { EditInput } from "./EditInput";
import { useArmed } from "./useArmed";
import { useWholePreview } from "./useWholePreview";

/** What somebody has to decide: who wants what, all of it, and the answers. */
export function ApprovalCard({ approvalId, call }: { approvalId: string; call: Call | null }) {
  const ask = useOpen().approvals.find(one => one.approval_id === approvalId);
  return ask ? <Card ask={ask} call={call} /> : null;
}

function Card({ ask: cut, call }: { ask: ApprovalAsk; call: Call | null }) {
  const here = useHere();
  const say = useAnnounce();
  const whole = useWholePreview(cut);
  const ask = whole.ask;
  const [editing, setEditing] = useState(false);
  const { card, end, guarded } = useArmed(ask.approval_id, JSON.stringify(ask), whole.loaded);
  const send = (answer: GivenAnswer) => {
    here.daemon.ask("POST", `/v1/approvals/${ask.approval_id}`, answer).then(
      () => say(answer.action === "approve" ? "Allowed" : "Denied"),
      error => say(wordsOf(error), "alert"),
    );
  };
  return (
    <section
      ref={card}
      className="cardx waiting approve pending"
      data-state="pending"
      data-ask={ask.approval_id}
      data-call={call?.id}
      role="group"
      aria-label={headline(ask, here.agent)}
      tabIndex={-1}
    >
      <header>
        <Icon name="shield" />
        <h2>{headline(ask, here.agent)}</h2>
        <span className="meta tnum">
          waiting <Waited ask={ask} call={call} />
        </span>
      </header>
      <ApprovalPreview ask={ask} />
      <span ref={end} className="end-mark" />
      {whole.error ? <p className="pad note">{whole.error}</p> : null}
      {editing ? (
        <EditInput
          ask={ask}
          done={() => setEditing(false)}
          send={input => guarded(() => send({ action: "approve", scope: "once", input }))}
        />
      ) : (
        <ApprovalActions ask={ask} ready={whole.loaded} guarded={guarded} send={send} edit={() => setEditing(true)} />
      )}
    </section>
  );
}

function Waited({ ask, call }: { ask: ApprovalAsk; call: Call | null }) {
  const here = useHere();
  const from = here.askedAt(ask.approval_id) ?? call?.started_at;
  return from ? <Since from={from} say={stopwatch} /> : <span>{visible("for you")}</span>;
}
