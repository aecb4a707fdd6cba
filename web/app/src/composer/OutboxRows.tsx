import { visible } from "@palaver/client";
import { useOutbox } from "../daemon/connection";
import { Icon } from "../ui/Icon";

/** What was sent and nobody has taken yet. */
export function OutboxRows({ sessionId, back }: { sessionId: string; back: (text: string) => void }) {
  const { items, outbox, online } = useOutbox(sessionId);
  if (items.length === 0) return null;
  return (
    <ol className="queue outbox" aria-label={`Not sent yet, ${items.length}`}>
      {items.map(item => {
        const text = item.parts.map(part => part.text ?? part.name ?? "").join(" ");
        return (
          <li key={item.id} className={item.refused ? "refused" : undefined}>
            <Icon name={item.refused ? "bang" : "ring"} spin={!item.refused && online} />
            <span className="q">{visible(text, { prose: true })}</span>
            <span className="more">{item.refused ? visible(item.refused) : online ? "Sending…" : "Waits for the connection"}</span>
            <button
              type="button"
              className="icon-btn"
              aria-label="Take this message back"
              onClick={() => {
                outbox.drop(item.id);
                back(text);
              }}
            >
              <Icon name="x" />
            </button>
          </li>
        );
      })}
    </ol>
  );
}
