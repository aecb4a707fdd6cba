import { visible } from "@palaver/client";
import { type ChangeEvent, type KeyboardEvent, memo, useCallback, useLayoutEffect, useRef, useState, useSyncExternalStore } from "react";
import { useAnnounce } from "../app/announce";
import { usePage } from "../app/page";
import { useOutbox } from "../daemon/connection";
import { wordsOf } from "../daemon/daemon";
import type { Draft } from "../daemon/drafts";
import type { OpenTurn, Part, SessionRow } from "../shapes";
import { Icon } from "../ui/Icon";
import { AttachmentChips } from "./AttachmentChips";
import { Completion } from "./Completion";
import { type Context, runCommand } from "./commands";
import type { Offer } from "./complete";
import { type Delivery, DeliverySwitch } from "./DeliverySwitch";
import { Hints } from "./Hints";
import { ModeChip } from "./ModeChip";
import { OtherDraft } from "./OtherDraft";
import { OutboxRows } from "./OutboxRows";
import { QueueRows } from "./QueueRows";
import { useAttaching } from "./useAttaching";
import { useCompletion } from "./useCompletion";

const LIST = "composer-offers";

/** Where a person writes. It is never off; what Enter does while the agent works is said beside it. */
export const Composer = memo(function Composer({
  session,
  draft,
  turn,
  lastSaid,
  context,
  sent,
}: {
  session: SessionRow;
  draft: Draft;
  turn: OpenTurn | undefined;
  lastSaid: string;
  context: Omit<Context, "page" | "say">;
  sent: () => void;
}) {
  const page = usePage();
  const say = useAnnounce();
  const { text, attachments, other } = useSyncExternalStore(draft.subscribe, draft.get);
  const { outbox } = useOutbox(session.id);
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const caretTo = useRef<number | null>(null);
  const [focused, setFocused] = useState(false);
  const [caret, setCaret] = useState(0);
  const [chosenDelivery, setDelivery] = useState<Delivery | null>(null);
  const canSteer = session.capabilities?.steer !== false;
  const delivery = chosenDelivery ?? startingDelivery(session);
  const attaching = useAttaching(session.id, draft);
  const completion = useCompletion(session, text, caret, focused);
  const listed = completion.offers.length > 0;

  // Before anything else is typed, so that what is typed next stands behind it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: it moves with the text
  useLayoutEffect(() => {
    if (caretTo.current === null) return;
    field.current?.setSelectionRange(caretTo.current, caretTo.current);
    setCaret(caretTo.current);
    caretTo.current = null;
  }, [text]);

  const write = useCallback((next: string) => draft.write({ text: next }), [draft]);

  const accept = (offer: Offer) => {
    const { want } = completion;
    if (!want) return;
    const insert = want.kind === "argument" ? offer.insert : text.slice(0, want.from) + offer.insert;
    if (offer.runs && runCommand(insert, { ...context, page, say })) return draft.write({ text: "" });
    write(insert + (want.kind === "argument" ? "" : text.slice(want.to)));
    caretTo.current = insert.length;
  };

  const send = (how: Delivery) => {
    const said = text.trim();
    if (said === "" && attachments.length === 0) return;
    if (attaching.uploading.some(one => !one.error)) return say("A file is still on its way", "alert");
    if (attachments.length === 0 && runCommand(said, { ...context, page, say })) return draft.write({ text: "" });
    const parts: Part[] = [
      ...(said === "" ? [] : [{ type: "text", text: said.startsWith("//") ? said.slice(1) : text.trimEnd() } as Part]),
      ...attachments.map(one => ({ type: kindOf(one.mime_type), ref: one.ref, name: one.name, mime_type: one.mime_type }) as Part),
    ];
    outbox.add({ sessionId: session.id, parts, delivery: turn ? how : "auto", draftRev: draft.currentRev });
    draft.clear();
    sent();
  };

  const onKey = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (event.nativeEvent.isComposing) return;
    if (listed && onListKey(event, completion, accept)) return;
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey && !isTouch()) {
      event.preventDefault();
      send(event.altKey ? otherOf(delivery, canSteer) : delivery);
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      send(delivery);
    } else if (event.key === "ArrowUp" && text === "" && lastSaid !== "") {
      event.preventDefault();
      write(lastSaid);
      caretTo.current = lastSaid.length;
    }
  };

  const stop = () => {
    page.daemon.ask("POST", `/v1/sessions/${session.id}/cancel`, {}).catch(error => say(wordsOf(error), "alert"));
  };

  return (
    <>
      <QueueRows session={session} />
      <OutboxRows sessionId={session.id} back={said => write(text === "" ? said : `${text}\n${said}`)} />
      <OtherDraft draft={draft} other={other} />
      <form
        className="box"
        onSubmit={event => {
          event.preventDefault();
          send(delivery);
        }}
        onDragOver={event => event.preventDefault()}
        onDrop={event => {
          event.preventDefault();
          attaching.take(event.dataTransfer);
        }}
      >
        {listed ? <Completion id={LIST} offers={completion.offers} chosen={completion.chosen} choose={accept} /> : null}
        <AttachmentChips
          attached={attachments}
          uploading={attaching.uploading}
          remove={ref => draft.write({ attachments: attachments.filter(one => one.ref !== ref) })}
          dismiss={attaching.dismiss}
        />
        <label className="sr" htmlFor="composer">
          Message {visible(session.agent)}
        </label>
        <textarea
          id="composer"
          ref={field}
          rows={2}
          value={text}
          placeholder={`Message ${session.agent}, or @ a file, / a command`}
          aria-autocomplete="list"
          aria-controls={listed ? LIST : undefined}
          aria-activedescendant={listed ? `${LIST}-${completion.chosen}` : undefined}
          onChange={(event: ChangeEvent<HTMLTextAreaElement>) => {
            write(event.target.value);
            setCaret(event.target.selectionStart);
          }}
          onSelect={event => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={onKey}
          onFocus={() => setFocused(true)}
          onBlur={() => setFocused(false)}
          onPaste={event => {
            if (attaching.take(event.clipboardData)) event.preventDefault();
          }}
        />
        <div className="row">
          <button type="button" className="icon-btn" aria-label="Attach a file" onClick={() => picker.current?.click()}>
            <Icon name="clip" />
          </button>
          <input
            ref={picker}
            className="sr"
            type="file"
            multiple
            tabIndex={-1}
            aria-label="Files to attach"
            onChange={event => {
              for (const file of event.target.files ?? []) void attaching.attach(file);
              event.target.value = "";
            }}
          />
          <DeliverySwitch value={delivery} change={setDelivery} canSteer={canSteer} />
          <span className="sp" />
          <ModeChip session={session} />
          {turn ? (
            <button type="button" className="halt" aria-label="Stop the agent" aria-keyshortcuts="Escape Escape" onClick={stop}>
              <Icon name="stop" />
            </button>
          ) : null}
          <button type="submit" className="send" aria-label="Send">
            <Icon name="up" />
          </button>
        </div>
      </form>
      <Hints working={turn !== undefined} delivery={delivery} other={otherOf(delivery, canSteer)} />
    </>
  );
});

function startingDelivery(session: SessionRow): Delivery {
  return session.delivery === "steer" || session.delivery === "interrupt" ? session.delivery : "queue";
}

function otherOf(delivery: Delivery, canSteer: boolean): Delivery {
  return delivery === "queue" && canSteer ? "steer" : "queue";
}

function kindOf(mimeType: string): Part["type"] {
  const kind = mimeType.split("/")[0];
  return kind === "image" || kind === "audio" ? kind : "file";
}

function isTouch(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}

/** True where the list took the key. */
function onListKey(event: KeyboardEvent, completion: ReturnType<typeof useCompletion>, accept: (offer: Offer) => void): boolean {
  const { offers, chosen, setChosen, close } = completion;
  const offer = offers[chosen];
  if (event.key === "ArrowDown") setChosen((chosen + 1) % offers.length);
  else if (event.key === "ArrowUp") setChosen((chosen - 1 + offers.length) % offers.length);
  else if (event.key === "Escape") {
    event.stopPropagation();
    close();
  } else if ((event.key === "Tab" || event.key === "Enter") && !event.shiftKey && offer) accept(offer);
  else return false;
  event.preventDefault();
  return true;
}
