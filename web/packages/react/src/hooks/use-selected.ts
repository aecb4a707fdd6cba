/** A part of a shared store's state: re-renders when what is selected changes. */

import { useCallback, useRef, useSyncExternalStore } from "react";
import { useClient } from "../provider.js";
import type { Shared } from "../shared.js";
import type { LiveStore } from "./use-live.js";

interface Cached<S, T> {
  readonly state: S;
  readonly select: (state: S) => T;
  readonly selected: T;
}

/** `select` is called once for each snapshot; what `isEqual` calls equal to what was selected before is that. */
export function useSelected<S, T>(
  shared: Shared<LiveStore<S>>,
  sessionId: string,
  nothing: S,
  select: (state: S) => T,
  isEqual: (one: T, other: T) => boolean,
): T {
  const client = useClient();
  const cached = useRef<Cached<S, T> | null>(null);
  const subscribe = useCallback(
    (listener: () => void) => {
      const { store, release } = shared.hold(client, sessionId);
      const leave = store.onStateChange(listener);
      return () => {
        leave();
        release();
      };
    },
    [shared, client, sessionId],
  );
  const read = () => {
    const state = shared.peek(client, sessionId)?.state ?? nothing;
    const before = cached.current;
    if (before?.state === state && before.select === select) return before.selected;
    const now = select(state);
    const selected = before !== null && isEqual(before.selected, now) ? before.selected : now;
    cached.current = { state, select, selected };
    return selected;
  };
  return useSyncExternalStore(subscribe, read, () => select(nothing));
}
