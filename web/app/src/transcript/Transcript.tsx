import { memo, useCallback, useEffect, useLayoutEffect, useRef, useState } from "react";
import { entryKey } from "../blocks/keys";
import type { View } from "../daemon/session";
import type { Entry } from "../shapes";
import { Day } from "./Day";
import { NewSince } from "./NewSince";
import { Row, type Tails } from "./Row";
import type { Scroller } from "./scroller";
import { Typing } from "./Typing";
import { around, earlier, later, newest, trimmed, type Window } from "./window";

/** The conversation, as far as it is mounted. Every row is real, so it can be selected, searched and read aloud. */
export const Transcript = memo(function Transcript({
  view,
  scroller,
  agent,
  readSeq,
  loadEarlier,
  loadLater,
  target,
}: {
  view: View;
  scroller: Scroller;
  agent: string;
  /** The last entry that its person had seen when the page was opened. */
  readSeq: string | null;
  loadEarlier: () => Promise<void>;
  loadLater: () => Promise<void>;
  /** A message to be brought into view. */
  target: { id: string } | null;
}) {
  const { entries, prepended } = view;
  const first = -prepended;
  const end = entries.length - prepended;
  const log = useRef<HTMLDivElement>(null);
  const col = useRef<HTMLDivElement>(null);
  const [window, setWindow] = useState<Window>(() => newest(first, end));
  const held = useRef<{ id: string; top: number } | null>(null);
  const shown = scroller.mode === "following" ? trimmed(window, end) : window;
  const from = Math.max(shown.from, first);
  const to = shown.to === null ? end : Math.min(shown.to, end);
  const rows = entries.slice(from - first, to - first);

  useEffect(() => (log.current && col.current ? scroller.attach(log.current, col.current) : undefined), [scroller]);
  useEffect(() => {
    if (shown !== window) setWindow(shown);
  }, [shown, window]);
  useLayoutEffect(() => {
    scroller.hold(held.current);
    held.current = null;
  });
  const lastUser = lastUserId(entries);
  useLayoutEffect(() => {
    if (lastUser) scroller.arrived(lastUser);
  }, [scroller, lastUser]);

  const up = useCallback(async () => {
    scroller.leave();
    if (from === first) await loadEarlier();
    held.current = scroller.held();
    setWindow(now => earlier(now, Number.NEGATIVE_INFINITY, end));
  }, [scroller, from, first, loadEarlier, end]);
  const down = useCallback(() => (to < end ? setWindow(now => later(now, end)) : void loadLater()), [to, end, loadLater]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: only another target moves the page
  useEffect(() => {
    if (!target) return;
    const place = entries.findIndex(entry => entryKey(entry) === target.id);
    if (place < 0) return;
    setWindow(around(place + first, first, end));
    scroller.leave();
    requestAnimationFrame(() => scroller.show(target.id));
  }, [target]);

  return (
    <div className="log" ref={log} role="log" aria-live="off" aria-label="Transcript" tabIndex={0}>
      <div className="col" ref={col}>
        {from > first || view.earlier ? <Edge near={up} label="Loading earlier messages" /> : null}
        {rows.map((entry, place) => (
          <Placed
            key={entryKey(entry)}
            entry={entry}
            before={entries[from - first + place - 1]}
            dayBefore={dayBefore(entries, from - first + place - 1)}
            tails={tailsFor(entry, view)}
            open={view.open.turn !== undefined && entry.turn_id === view.open.turn.id}
            isNew={readSeq !== null && readSeq === entryKey(entry)}
          />
        ))}
        {to < end || view.later ? <Edge near={down} label="Loading later messages" /> : null}
        <Typing
          turn={view.open.turn}
          entries={entries}
          agent={agent}
          waiting={view.open.approvals.length + view.open.questions.length > 0}
        />
        {entries.length === 0 && view.loaded && !view.error ? <p className="empty">Nothing was said here yet.</p> : null}
      </div>
    </div>
  );
});

interface PlacedProps {
  entry: Entry;
  before: Entry | undefined;
  /** When the last message before it was said. */
  dayBefore: string | undefined;
  tails: Tails | undefined;
  open: boolean;
  isNew: boolean;
}

const Placed = memo(function Placed({ entry, before, dayBefore, tails, open, isNew }: PlacedProps) {
  return (
    <>
      {isNew ? <NewSince /> : null}
      <Day at={entry.message?.created_at} before={dayBefore} />
      <Row entry={entry} tails={tails} first={isFirst(entry, before)} open={open} />
    </>
  );
}, samePlaced);

/** Whether it begins what somebody else did not. */
function isFirst(entry: Entry, before: Entry | undefined): boolean {
  return before === undefined || before.message?.role === "user" || before.turn_id !== entry.turn_id;
}

function samePlaced(a: PlacedProps, b: PlacedProps): boolean {
  return (
    a.entry === b.entry &&
    a.open === b.open &&
    a.isNew === b.isNew &&
    a.tails === b.tails &&
    isFirst(a.entry, a.before) === isFirst(b.entry, b.before) &&
    a.dayBefore === b.dayBefore
  );
}

function tailsFor(entry: Entry, view: View): Tails | undefined {
  if (entry.turn_id !== view.open.turn?.id || Object.keys(view.tails).length === 0) return undefined;
  const owners = [entry.message?.id, ...entry.blocks.map(block => block.call?.id)];
  const own = owners.filter((owner): owner is string => owner !== undefined && owner in view.tails);
  if (own.length === 0) return undefined;
  return Object.fromEntries(own.map(owner => [owner, view.tails[owner] as Tails[string]]));
}

function dayBefore(entries: readonly Entry[], place: number): string | undefined {
  for (let at = place; at >= 0; at--) {
    const said = entries[at]?.message;
    if (said) return said.created_at;
  }
  return undefined;
}

function lastUserId(entries: readonly Entry[]): string | null {
  for (let place = entries.length - 1; place >= 0 && place > entries.length - 20; place--) {
    const message = entries[place]?.message;
    if (message?.role === "user") return message.id;
  }
  return null;
}

/** Where the mounted rows end: near it, more of them come. */
function Edge({ near, label }: { near: () => void; label: string }) {
  const edge = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!edge.current) return;
    const observer = new IntersectionObserver(seen => seen.some(one => one.isIntersecting) && near(), { rootMargin: "400px" });
    observer.observe(edge.current);
    return () => observer.disconnect();
  }, [near]);
  return (
    <button type="button" className="edge" ref={edge} onClick={near}>
      {label}
    </button>
  );
}
