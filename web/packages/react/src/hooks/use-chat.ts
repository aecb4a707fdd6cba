/** A whole chat in one hook. */

import { type ChatMode, ChatSession, type ChatSessionOptions, type ChatSessionState } from "@palaver/client";
import { useMemo } from "react";
import { useClient } from "../provider.js";
import { useLive, useNewest } from "./use-live.js";

type Actions =
  | "submit"
  | "steer"
  | "queue"
  | "interrupt"
  | "flush"
  | "removeQueued"
  | "clearQueued"
  | "setMode"
  | "respondToConfirmation"
  | "clearMessages";

export type UseChatResult<T extends string = ChatMode> = ChatSessionState<T> & Pick<ChatSession<T>, Actions>;

export function useChat<T extends string = ChatMode>(options: ChatSessionOptions<T> = {}): UseChatResult<T> {
  const client = useClient();
  const { sessionId, initialMessages, mode, flushMode, autoFlush, autoSubscribe, subscribe = true } = options;
  const transform = useNewest(options.transform);
  const confirmationPolicy = useNewest(options.confirmationPolicy);
  const deriveMode = useNewest(options.deriveMode);
  const onEvent = useNewest(options.onEvent);
  const functions = { transform, confirmationPolicy, deriveMode, onEvent };
  const { state, current } = useLive(
    isLive => {
      const steering = { sessionId, mode, flushMode, autoFlush, autoSubscribe };
      return new ChatSession<T>(client, { ...steering, ...functions, initialMessages, subscribe: isLive && subscribe });
    },
    [client, sessionId, flushMode, autoFlush, autoSubscribe, subscribe],
  );
  const actions = useMemo(
    (): Pick<ChatSession<T>, Actions> => ({
      submit: text => current().submit(text),
      steer: text => current().steer(text),
      queue: text => current().queue(text),
      interrupt: text => current().interrupt(text),
      flush: () => current().flush(),
      removeQueued: index => current().removeQueued(index),
      clearQueued: () => current().clearQueued(),
      setMode: chosen => current().setMode(chosen),
      respondToConfirmation: (response, toolUseId) => current().respondToConfirmation(response, toolUseId),
      clearMessages: () => current().clearMessages(),
    }),
    [current],
  );
  return { ...state, ...actions };
}
