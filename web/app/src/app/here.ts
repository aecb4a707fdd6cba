import { createContext, useContext } from "react";
import type { Arming } from "../cards/arming";
import type { Daemon } from "../daemon/daemon";
import type { ApprovalAsk, OpenTurn, QuestionAsk } from "../shapes";
import type { Toggles } from "../transcript/toggles";

/** The session that a block stands in: what it may ask for, and what its person opened and saw. One value as long as a session is shown. */
export interface Here {
  sessionId: string;
  daemon: Daemon;
  /** A page of the past or an exported file: everything shows, nothing can be done. */
  readOnly: boolean;
  arming: Arming;
  toggles: Toggles;
  agent: string;
  /** When an ask came, as far as anybody said. */
  askedAt: (askId: string) => string | undefined;
  /** Tells what the model's window holds, whenever it is said; the answer ends it. */
  onUsage: (tell: (usage: ContextUsage) => void) => () => void;
  show: (what: Dialog) => void;
  go: (sessionId: string) => void;
  /** A turn, as somebody would paste it elsewhere. */
  markdownOf: (turnId: string) => string;
  /** A fork of what came before a message, with its text in the composer. */
  resend: (messageId: string, text: string) => void;
  /** In an exported file: where a stored file lies in it. */
  addressOf?: (path: string) => string | undefined;
}

export interface ContextUsage {
  tokens: number;
  limit?: number | null;
  categories?: { name: string; tokens: number }[];
}

export type Dialog =
  | { kind: "output"; title: string; callId: string; streams: string[]; text: string }
  | { kind: "artifact"; title: string; path: string }
  | { kind: "undo"; turnId: string; redo: boolean }
  | { kind: "changes" };

/** What of a session waits for its person, and the turn that runs. Changes with the transcript. */
export interface OpenNow {
  turn?: OpenTurn | undefined;
  approvals: ApprovalAsk[];
  questions: QuestionAsk[];
}

export const NOTHING_OPEN: OpenNow = { approvals: [], questions: [] };

export const HereContext = createContext<Here | null>(null);
export const OpenContext = createContext<OpenNow>(NOTHING_OPEN);

export function useHere(): Here {
  const here = useContext(HereContext);
  if (here === null) throw new Error("A block stands in no session");
  return here;
}

export const useOpen = (): OpenNow => useContext(OpenContext);
