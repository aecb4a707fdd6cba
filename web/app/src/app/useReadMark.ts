import { useEffect, useRef, useState, useSyncExternalStore } from "react";
import { entryKey } from "../blocks/keys";
import type { Connected } from "../daemon/connection";
import type { LiveSession, View } from "../daemon/session";
import type { Scroller } from "../transcript/scroller";

const SETTLE_MS = 1200;

/**
 * Says to the daemon how far its person has read: when the end is in view of a window that has the focus.
 * The answer is the first entry that came while they were away, for the line above it.
 */
export function useReadMark({
  connected,
  live,
  view,
  scroller,
  id,
  off,
}: {
  connected: Connected;
  live: LiveSession;
  view: View;
  scroller: Scroller;
  id: string;
  off: boolean;
}): string | null {
  const away = useSyncExternalStore(scroller.subscribe, scroller.isAway);
  const [newFrom, setNewFrom] = useState<string | null>(null);
  const leftAt = useRef<string | null>(null);
  const last = view.entries[view.entries.length - 1];
  const lastKey = last ? entryKey(last) : null;

  useEffect(() => {
    const look = () => {
      const attended = document.visibilityState === "visible" && document.hasFocus();
      connected.client.focus(attended ? id : null);
      const entries = live.get().entries;
      const end = entries[entries.length - 1];
      if (!attended) leftAt.current ??= end ? entryKey(end) : "";
      else if (leftAt.current !== null) {
        const place = entries.findIndex(entry => entryKey(entry) === leftAt.current);
        const next = entries[place + 1];
        setNewFrom(next && place >= 0 ? entryKey(next) : null);
        leftAt.current = null;
      }
    };
    look();
    const abort = new AbortController();
    window.addEventListener("focus", look, { signal: abort.signal });
    window.addEventListener("blur", look, { signal: abort.signal });
    document.addEventListener("visibilitychange", look, { signal: abort.signal });
    return () => {
      abort.abort();
      connected.client.focus(null);
    };
  }, [connected, live, id]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: whatever comes is read a moment later
  useEffect(() => {
    if (off || away || !view.loaded) return;
    const timer = setTimeout(() => {
      const seq = live.headSeq;
      if (document.hasFocus() && seq > (live.get().session?.read_seq ?? 0)) {
        connected.daemon.ask("POST", `/v1/sessions/${id}/read`, { seq }).catch(() => {});
      }
    }, SETTLE_MS);
    return () => clearTimeout(timer);
  }, [connected, live, id, off, away, view.loaded, view.open, lastKey]);
  return newFrom;
}
