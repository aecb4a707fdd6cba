import { useSyncExternalStore } from "react";
import { clock } from "../text/format";

const everySecond = ticker(1000);
const everyMinute = ticker(30_000);

/** One clock for all that count, and none while nobody looks or nothing counts. */
function ticker(ms: number) {
  const listeners = new Set<() => void>();
  let timer: ReturnType<typeof setInterval> | undefined;
  let now = Date.now();
  const tick = () => {
    now = Date.now();
    if (!document.hidden) for (const listener of listeners) listener();
  };
  return {
    now: () => now,
    subscribe: (listener: () => void) => {
      now = listeners.size === 0 ? Date.now() : now;
      listeners.add(listener);
      timer ??= setInterval(tick, ms);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0) {
          clearInterval(timer);
          timer = undefined;
        }
      };
    },
  };
}

/** The time of day at which something happened. */
export function At({ at }: { at: string }) {
  return <time dateTime={at}>{clock(at)}</time>;
}

/** A label that goes on while time passes: the only place where a clock is read. */
export function Since({ from, say, each = "second" }: { from: string; say: (ms: number) => string; each?: "second" | "minute" }) {
  const beat = each === "second" ? everySecond : everyMinute;
  const now = useSyncExternalStore(beat.subscribe, beat.now, beat.now);
  return <time dateTime={from}>{say(Math.max(0, now - Date.parse(from)))}</time>;
}
