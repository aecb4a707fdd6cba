/** A window on a session's transcript: re-renders when what you select changes. Select a part that exists; do not build a new one. */

import type { Transcript, TranscriptState } from "@palaver/client";
import { useEffect, useState } from "react";
import { useClient } from "../provider.js";
import { transcripts } from "../shared.js";
import { useSelected } from "./use-selected.js";

const NOTHING: TranscriptState = {
  page: null,
  provisional: {},
  tails: {},
  inputs: {},
  isLatest: true,
  error: null,
  session: null,
  queue: { items: [], paused: false, reason: null },
};

export function useTranscript<T>(
  { sessionId }: { sessionId: string },
  select: (state: TranscriptState) => T,
  isEqual: (one: T, other: T) => boolean = Object.is,
): T {
  return useSelected(transcripts, sessionId, NOTHING, select, isEqual);
}

/** The transcript itself, to load more of it, jump and flush; null before the first commit. */
export function useTranscriptStore({ sessionId }: { sessionId: string }): Transcript | null {
  const client = useClient();
  const [held, setHeld] = useState<Transcript | null>(null);
  useEffect(() => {
    const { store, release } = transcripts.hold(client, sessionId);
    setHeld(store);
    return () => {
      setHeld(null);
      release();
    };
  }, [client, sessionId]);
  return held;
}
