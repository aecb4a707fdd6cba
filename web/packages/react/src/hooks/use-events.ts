/** A session's events as they come: each once, in order, in a commit of its own. */

import type { StreamEvent } from "@palaver/client";
import { useEffect, useRef, useState } from "react";
import { useClient } from "../provider.js";
import { useNewest } from "./use-live.js";

/** How many are kept in `events`, the newest ones. */
const KEPT = 1000;

export interface UseEventsOptions {
  /** Without it: the events of all sessions that this client reads. */
  sessionId?: string | undefined;
  /** Which ones: their types, or whether one is wanted. */
  filter?: readonly StreamEvent["type"][] | ((event: StreamEvent) => boolean) | undefined;
  /** Called for each one at once, before it is rendered. */
  onEvent?: ((event: StreamEvent) => void) | undefined;
}

export interface UseEventsResult {
  /** The newest one. */
  readonly event: StreamEvent | null;
  readonly events: readonly StreamEvent[];
}

const NONE: UseEventsResult = { event: null, events: [] };

export function useEvents(options: UseEventsOptions = {}): UseEventsResult {
  const client = useClient();
  const { sessionId, filter } = options;
  const [shown, setShown] = useState({ of: sessionId, result: NONE });
  const waiting = useRef<StreamEvent[]>([]);
  const isShowing = useRef(false);
  const isWanted = useNewest((event: StreamEvent) =>
    typeof filter === "function" ? filter(event) : (filter?.includes(event.type) ?? true),
  );
  const onEvent = useNewest((event: StreamEvent) => options.onEvent?.(event));
  const next = useNewest(() => {
    const event = waiting.current.shift();
    isShowing.current = event !== undefined;
    if (event === undefined) return;
    setShown(before => {
      const events = before.of === sessionId ? before.result.events : [];
      return { of: sessionId, result: { event, events: [...events.slice(1 - KEPT), event] } };
    });
  });

  // the one before is on the screen: now the next
  // biome-ignore lint/correctness/useExhaustiveDependencies: each new one is what this waits for
  useEffect(() => {
    if (isShowing.current) next?.();
  }, [shown]);

  useEffect(() => {
    const take = (event: StreamEvent) => {
      if (!isWanted?.(event)) return;
      onEvent?.(event);
      waiting.current.push(event);
      if (!isShowing.current) next?.();
    };
    if (sessionId === undefined) return client.onEvent?.(take);
    const accessor = client.session(sessionId);
    const leave = accessor.onEvent(take);
    accessor.subscribe?.();
    return () => {
      leave();
      accessor.unsubscribe?.();
      waiting.current = [];
      isShowing.current = false;
    };
  }, [client, sessionId, isWanted, onEvent, next]);

  return shown.of === sessionId ? shown.result : NONE;
}
