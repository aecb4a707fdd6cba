import { visible } from "@palaver/client";
import { useRef, useState } from "react";
import { useAnnounce } from "../app/announce";
import { usePage } from "../app/page";
import { Refusal, wordsOf } from "../daemon/daemon";
import type { QueueItem, SessionRow } from "../shapes";
import { Icon } from "../ui/Icon";

/** What waits for its own turn: send now, edit, move, remove. It lives on the daemon; gone meanwhile is no error. */
export function QueueRows({ session }: { session: SessionRow }) {
  const { daemon } = usePage();
  const say = useAnnounce();
  const [editing, setEditing] = useState<string | null>(null);
  const items = session.queue?.items ?? [];
  if (items.length === 0) return null;
  const path = `/v1/sessions/${session.id}/queue`;
  const ask = (method: string, rest: string, body?: unknown) => {
    daemon.ask(method, `${path}/${rest}`, body).catch(error => {
      if (!(error instanceof Refusal && error.code === "item_gone")) say(wordsOf(error), "alert");
    });
  };
  return (
    <>
      {session.queue?.paused ? (
        <div className="paused" role="note">
          <Icon name="pause" />
          <span>Queue paused{session.queue.reason ? `: ${REASONS[session.queue.reason] ?? visible(session.queue.reason)}` : ""}</span>
          <button type="button" className="btn mini" onClick={() => ask("POST", "resume")}>
            Go on
          </button>
        </div>
      ) : null}
      <ol className="queue" aria-label={`Queued messages, ${items.length}`}>
        {items.map((item, place) =>
          editing === item.id ? (
            <li key={item.id} className="editing">
              <QueueEdit
                item={item}
                done={() => setEditing(null)}
                save={text => ask("PATCH", item.id, { parts: [{ type: "text", text }] })}
              />
            </li>
          ) : (
            <li key={item.id} data-item={item.id}>
              <span className="pos tnum">{place + 1}</span>
              <span className="q">{visible(textOf(item), { prose: true })}</span>
              {place === 0 && items.length > 1 ? <span className="more">+{items.length - 1} more</span> : null}
              <Button icon="bolt" label={`Send queued message ${place + 1} now`} act={() => ask("POST", `${item.id}/promote`)} />
              {place > 0 ? (
                <Button
                  icon="up"
                  label={`Move queued message ${place + 1} up`}
                  act={() => ask("PATCH", item.id, { before: items[place - 1]?.id })}
                />
              ) : null}
              {place < items.length - 1 ? (
                <Button
                  icon="down"
                  label={`Move queued message ${place + 1} down`}
                  act={() => ask("PATCH", item.id, { before: items[place + 2]?.id ?? null })}
                />
              ) : null}
              <Button icon="edit" label={`Edit queued message ${place + 1}`} act={() => setEditing(item.id)} />
              <Button icon="x" label={`Remove queued message ${place + 1}`} act={() => ask("DELETE", item.id)} />
            </li>
          ),
        )}
      </ol>
    </>
  );
}

const REASONS: Record<string, string> = {
  cancelled: "the turn was stopped",
  failed: "the turn failed",
  user: "by you",
  user_cancel: "the turn was stopped",
};

function Button({ icon, label, act }: { icon: "bolt" | "up" | "down" | "edit" | "x"; label: string; act: () => void }) {
  return (
    <button type="button" className="icon-btn" aria-label={label} title={label} onClick={act}>
      <Icon name={icon} />
    </button>
  );
}

function QueueEdit({ item, done, save }: { item: QueueItem; done: () => void; save: (text: string) => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const submit = () => {
    const text = field.current?.value.trim() ?? "";
    if (text !== "") save(text);
    done();
  };
  return (
    <>
      <textarea
        ref={field}
        aria-label="Queued message"
        defaultValue={textOf(item)}
        rows={2}
        // biome-ignore lint/a11y/noAutofocus: its person has just asked for it
        autoFocus
        onKeyDown={event => {
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            submit();
          }
          if (event.key === "Escape") {
            event.stopPropagation();
            done();
          }
        }}
      />
      <button type="button" className="btn mini" onClick={submit}>
        Save
      </button>
    </>
  );
}

function textOf(item: QueueItem): string {
  const parts = item.message?.parts ?? [];
  return parts.map(part => part.text ?? part.name ?? part.ref ?? "").join(" ");
}
