/** What the agent is writing right now, letter by letter. */

import { StreamingText, type StreamingTextState } from "@palaver/client";
import { useClient } from "../provider.js";
import { useLive } from "./use-live.js";

export function useStreamingText(options: { sessionId?: string | undefined } = {}): StreamingTextState {
  const client = useClient();
  const { sessionId } = options;
  return useLive(isLive => new StreamingText(client, { sessionId, subscribe: isLive }), [client, sessionId]).state;
}
