/** Spec 003's one holder of what an agent offers: modes, models, commands, capabilities; and the three hooks that select from it. */

import type { AgenticSessionState, SessionInfo } from "@palaver/client";
import { useCallback } from "react";
import { type HookClient, useClient } from "../provider.js";
import { agenticSessions } from "../shared.js";
import { useSelected } from "./use-selected.js";

type Modes = SessionInfo["availableModes"];
type Models = SessionInfo["availableModels"];
type Commands = SessionInfo["availableCommands"];

export interface UseAgenticSessionResult {
  /** Null until it is known. */
  readonly sessionInfo: SessionInfo | null;
  readonly availableModes: Modes;
  readonly currentModeId: string | null;
  readonly availableModels: Models;
  readonly currentModelId: string | null;
  readonly availableCommands: Commands;
  readonly capabilities: SessionInfo["capabilities"] | null;
  readonly setMode: (id: string) => Promise<void>;
  readonly setModel: (id: string) => Promise<void>;
}

const NOTHING: AgenticSessionState = { sessionInfo: null, error: null };
const NONE: readonly never[] = [];

function useInfo(sessionId: string): SessionInfo | null {
  return useSelected(agenticSessions, sessionId, NOTHING, infoOf, Object.is);
}

function infoOf(state: AgenticSessionState): SessionInfo | null {
  return state.sessionInfo;
}

function useChoice(sessionId: string, what: "mode" | "model"): (id: string) => Promise<void> {
  const client = useClient();
  return useCallback((id: string) => choose(client, sessionId, what, id), [client, sessionId, what]);
}

async function choose(client: HookClient, sessionId: string, what: "mode" | "model", id: string): Promise<void> {
  await client.request?.("POST", `/v1/sessions/${encodeURIComponent(sessionId)}/${what}`, { id });
}

export function useAgenticSession({ sessionId }: { sessionId: string }): UseAgenticSessionResult {
  const sessionInfo = useInfo(sessionId);
  const setMode = useChoice(sessionId, "mode");
  const setModel = useChoice(sessionId, "model");
  return {
    sessionInfo,
    availableModes: sessionInfo?.availableModes ?? NONE,
    currentModeId: sessionInfo?.currentModeId ?? null,
    availableModels: sessionInfo?.availableModels ?? NONE,
    currentModelId: sessionInfo?.currentModelId ?? null,
    availableCommands: sessionInfo?.availableCommands ?? NONE,
    capabilities: sessionInfo?.capabilities ?? null,
    setMode,
    setModel,
  };
}

export function useAcpMode({
  sessionId,
}: {
  sessionId: string;
}): Pick<UseAgenticSessionResult, "availableModes" | "currentModeId" | "setMode"> {
  const { availableModes, currentModeId, setMode } = useAgenticSession({ sessionId });
  return { availableModes, currentModeId, setMode };
}

export function useAcpSessionModel({
  sessionId,
}: {
  sessionId: string;
}): Pick<UseAgenticSessionResult, "availableModels" | "currentModelId" | "setModel"> {
  const { availableModels, currentModelId, setModel } = useAgenticSession({ sessionId });
  return { availableModels, currentModelId, setModel };
}

export function useAcpCommands({ sessionId }: { sessionId: string }): Pick<UseAgenticSessionResult, "availableCommands"> {
  return { availableCommands: useAgenticSession({ sessionId }).availableCommands };
}
