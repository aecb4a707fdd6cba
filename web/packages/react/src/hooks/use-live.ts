/**
 * A store of the client's, as React sees it: connected from the commit on, and for as long as the component is there.
 *
 * Rendering only makes an idle one, which listens to nobody; so a render that is thrown away leaves nothing behind. The live one is made
 * when React subscribes, and destroyed when it unsubscribes: StrictMode does both twice, and one is left.
 */

import { useCallback, useMemo, useRef, useSyncExternalStore } from "react";

export interface LiveStore<S> {
  readonly state: S;
  onStateChange(listener: () => void): () => void;
  destroy(): void;
}

/** The state of the store that `make` makes for this key, and whoever is that store now. `make(false)` must not subscribe to anything. */
export function useLive<T extends LiveStore<unknown>>(
  make: (isLive: boolean) => T,
  key: readonly unknown[],
): { state: T["state"]; current: () => T } {
  const latest = useRef(make);
  latest.current = make;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a store belongs to its key; what `make` closes over may be new each time
  const idle = useMemo(() => make(false), key);
  const live = useRef<{ idle: T; store: T } | null>(null);
  const current = useCallback(() => (live.current?.idle === idle ? live.current.store : idle), [idle]);
  const subscribe = useCallback(
    (listener: () => void) => {
      const store = latest.current(true);
      live.current = { idle, store };
      const leave = store.onStateChange(listener);
      return () => {
        leave();
        store.destroy();
        if (live.current?.store === store) live.current = null;
      };
    },
    [idle],
  );
  const state = useSyncExternalStore(
    subscribe,
    () => current().state,
    () => idle.state,
  );
  return { state, current };
}

/** A function that stays the same and calls the newest one given. */
export function useNewest<A extends unknown[], R>(call: ((...args: A) => R) | undefined): ((...args: A) => R) | undefined {
  const newest = useRef(call);
  newest.current = call ?? newest.current;
  const stable = useCallback((...args: A): R => (newest.current as (...args: A) => R)(...args), []);
  return call === undefined ? undefined : stable;
}
