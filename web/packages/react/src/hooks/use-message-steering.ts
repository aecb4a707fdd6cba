/** What a person says while an agent works: send, queue, steer, interrupt. */

import { MessageSteering, type MessageSteeringOptions, type MessageSteeringState } from "@palaver/client";
import { useMemo } from "react";
import { useClient } from "../provider.js";
import { useLive } from "./use-live.js";

type Actions = "submit" | "steer" | "queue" | "interrupt" | "flush" | "removeQueued" | "clearQueued" | "setMode";

export type UseMessageSteeringResult = MessageSteeringState & Pick<MessageSteering, Actions>;

export function useMessageSteering(options: MessageSteeringOptions = {}): UseMessageSteeringResult {
  const client = useClient();
  const { sessionId, mode, flushMode, autoFlush, subscribe = true } = options;
  const { state, current } = useLive(
    isLive => new MessageSteering(client, { sessionId, mode, flushMode, autoFlush, subscribe: isLive && subscribe }),
    [client, sessionId, flushMode, autoFlush, subscribe],
  );
  const actions = useMemo(
    (): Pick<MessageSteering, Actions> => ({
      submit: text => current().submit(text),
      steer: text => current().steer(text),
      queue: text => current().queue(text),
      interrupt: text => current().interrupt(text),
      flush: () => current().flush(),
      removeQueued: index => current().removeQueued(index),
      clearQueued: () => current().clearQueued(),
      setMode: chosen => current().setMode(chosen),
    }),
    [current],
  );
  return { ...state, ...actions };
}
