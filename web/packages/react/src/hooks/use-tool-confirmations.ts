/** Tool calls of a session that wait for somebody's word. */

import {
  type ToolConfirmationResponse,
  type ToolConfirmationState,
  ToolConfirmations,
  type ToolConfirmationsOptions,
} from "@palaver/client";
import { useCallback } from "react";
import { useClient } from "../provider.js";
import { useLive, useNewest } from "./use-live.js";

export interface UseToolConfirmationsResult {
  /** The newest one that is unanswered. */
  readonly pending: ToolConfirmationState | null;
  /** All of them, the oldest first. */
  readonly pendingAll: readonly ToolConfirmationState[];
  /** Answer the newest one, or the one that is named. */
  readonly respond: (response: ToolConfirmationResponse, toolUseId?: string) => void;
}

export function useToolConfirmations(options: ToolConfirmationsOptions = {}): UseToolConfirmationsResult {
  const client = useClient();
  const { sessionId, subscribe = true } = options;
  const policy = useNewest(options.policy);
  const { state, current } = useLive(
    isLive => new ToolConfirmations(client, { sessionId, policy, subscribe: isLive && subscribe }),
    [client, sessionId, subscribe],
  );
  const respond = useCallback(
    (response: ToolConfirmationResponse, toolUseId?: string) => void current().respond(response, toolUseId),
    [current],
  );
  return { pending: state.pending, pendingAll: state.pendingAll, respond };
}
