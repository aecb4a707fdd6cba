import { visible } from "@palaver/client";
import { Markdown } from "../markdown/Markdown";
import type { Block, Message } from "../shapes";
import { Fold } from "../ui/Fold";
import { Icon } from "../ui/Icon";

interface Exchange {
  exchange_id: string;
  role: "sender" | "target";
  peer: { agent: string; session_id: string };
  receipt: string;
  message?: Message;
  cause?: string;
}

const RECEIPTS: Record<string, string> = {
  sent: "sent",
  queued: "waiting for its turn",
  delivered: "was delivered",
  answered: "replied",
  failed: "failed",
  expired: "did not answer in time",
  cancelled: "was cancelled",
  refused: "refused",
};
const BAD = new Set(["failed", "expired", "cancelled", "refused"]);

/** A message to another agent and what came back: the input, its receipt, the final text. */
export function ExchangeBlock({ block }: { block: Block }) {
  const exchange = block.data as unknown as Exchange;
  const { role, peer, receipt, message, cause } = exchange;
  const state = BAD.has(receipt) ? "error" : receipt === "answered" ? "agent-callback" : "pending";
  const input = block.call ? String(block.call.input.text ?? block.call.input.message ?? "") : "";
  const reply = (message?.parts ?? []).map(part => part.text ?? "").join("\n");
  return (
    <Fold
      id={exchange.exchange_id}
      className={`tool exchange ${state}`}
      data-state={state}
      open
      summary={
        <>
          <span className="st">
            <Icon name={state === "error" ? "bang" : "reply"} />
          </span>
          <span className="verb">{visible(peer.agent)}</span>
          <span className="tag">{RECEIPTS[receipt] ?? receipt}</span>
          <span className="meta">{role === "sender" ? "asked by this agent" : "asked this agent"}</span>
        </>
      }
    >
      <div className="body prose">
        {input ? <p className="quote">{visible(input, { prose: true })}</p> : null}
        {cause ? <p>{visible(cause, { prose: true })}</p> : null}
        {reply ? <Markdown text={reply} /> : null}
      </div>
    </Fold>
  );
}
