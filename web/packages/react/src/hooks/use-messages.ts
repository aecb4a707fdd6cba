/** The messages of a session, as `MessageLog` takes them from the ends of its executions. */

import { type ChatMessage, MessageLog, type MessageLogOptions } from "@palaver/client";
import { useCallback } from "react";
import { useClient } from "../provider.js";
import { useLive, useNewest } from "./use-live.js";

export interface UseMessagesResult {
  readonly messages: readonly ChatMessage[];
  readonly clear: () => void;
}

export function useMessages(options: MessageLogOptions = {}): UseMessagesResult {
  const client = useClient();
  const { sessionId, initialMessages, subscribe = true } = options;
  const transform = useNewest(options.transform);
  const { state, current } = useLive(
    isLive => new MessageLog(client, { sessionId, initialMessages, transform, subscribe: isLive && subscribe }),
    [client, sessionId, subscribe],
  );
  const clear = useCallback(() => current().clear(), [current]);
  return { messages: state.messages, clear };
}
