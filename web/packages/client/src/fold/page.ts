/** The shape of a transcript, as `GET …/transcript` answers and as the fold goes on from it. */

import type * as wire from "../wire.gen.js";

export interface Page {
  readonly as_of_seq: number;
  readonly entries: readonly Entry[];
  readonly open: OpenPage;
  /** A cursor for `before`; null where nothing comes before. */
  readonly earlier: string | null;
  /** A cursor for `after`; null where the page ends with the log. */
  readonly later: string | null;
}

/** A message with what belongs to it; `message` is null for what belongs to none. It stands where its first event stands and never moves. */
export interface Entry {
  /** As its event has it; an assistant's without parts until it is complete. */
  readonly message: wire.Message | null;
  /** In the order of their first appearance. */
  readonly blocks: readonly Block[];
  /** The turn of its first event. It never changes, even if a later turn reads the message. */
  readonly turn_id?: string;
  readonly delivery?: "waiting" | "delivered" | "own_turn";
  /** Where the whole of a shortened part is, by JSON pointers that begin at `/message`. */
  readonly refs?: Refs;
}

export type Refs = Record<string, wire.FileRef>;
export type Block = PartBlock | ToolBlock | FactBlock;

export interface PartBlock {
  readonly kind: "text" | "thinking" | "image" | "audio" | "file";
  readonly part: wire.Part;
  readonly interrupted?: boolean;
  /** Of text and thinking that streamed: when its first logged event was written. */
  readonly started_at?: string;
  readonly ended_at?: string;
}

export interface ToolBlock {
  readonly kind: "tool";
  readonly call: Call;
}

/** A block that says what an event says. Where it took the place of its call's block it keeps that call beside its own data. */
export type FactBlock = {
  [K in keyof Facts]: { readonly kind: K; readonly id: string; readonly data: Facts[K]; readonly call?: Call };
}[keyof Facts];

export interface Facts {
  plan: wire.PlanUpdated;
  ask_user: wire.QuestionAsked & Partial<wire.QuestionAnswered>;
  approval: wire.ApprovalRequested & { approval: ApprovalRecord };
  change_report: wire.FilesChanged & { undone?: wire.TurnUndone };
  finalize_task: wire.TaskFinalized;
  subagent: wire.SubagentSpawned & Partial<wire.SubagentFinished>;
  exchange: wire.ExchangeSent & Partial<wire.ExchangeReplied>;
  verify: wire.VerifyCompleted;
  notice:
    | (wire.ContextCompacted & { type: "context_compacted" })
    | (wire.ModelFallback & { type: "model_fallback" })
    | (wire.Notice & { type: "notice" });
  turn_end: wire.TurnCompleted;
}

export interface Call extends wire.ToolCall {
  readonly kind: wire.ToolCallStarted["kind"];
  readonly title: string;
  readonly run_by: "daemon" | "backend";
  readonly locations: readonly wire.Location[];
  readonly state: "pending" | "success" | "error" | "interrupted";
  readonly truncated: boolean;
  /** The newest 4 Ki code points, in the order of the log. */
  readonly output: readonly { readonly stream: string; readonly text: string }[];
  /** All of it, in code points, by stream. */
  readonly output_chars: Readonly<Record<string, number>>;
  /** When it began to run. */
  readonly started_at?: string;
  readonly result?: wire.ToolResult;
  readonly duration_ms?: number;
  readonly approval?: ApprovalRecord;
  /** Pointers begin at `/tool_call` or `/tool_result`, as in the events that had them. */
  readonly refs?: Refs;
}

export interface ApprovalRecord {
  readonly id: string;
  readonly status: "waiting" | "granted" | "denied";
  readonly by?: string;
  readonly cause?: wire.ApprovalDenied["cause"];
  readonly scope?: wire.ApprovalGranted["scope"];
  readonly reason?: string;
  readonly input?: unknown;
  readonly refs?: Refs;
}

/** What of a session is open right now. */
export interface OpenPage {
  readonly turn?: OpenTurn;
  /** The data of each `approval_requested` without an answer, oldest first. */
  readonly approvals: readonly wire.ApprovalRequested[];
  readonly questions: readonly wire.QuestionAsked[];
  readonly parts: readonly OpenPart[];
}

export interface OpenTurn extends wire.TurnStarted {
  readonly id: string;
  readonly started_at: string;
  readonly cancel_requested?: true;
}

/** A part of a message, or a stream of a call; `chars` are the code points that logged events confirm. */
export type OpenPart =
  | { readonly message_id: string; readonly part_id: string; readonly chars: number }
  | { readonly tool_call_id: string; readonly stream: string; readonly chars: number };

/** Text in flight that no logged event confirms yet. */
export interface Tail {
  /** A message's or a call's id. */
  readonly owner: string;
  /** The part's id, or the stream. */
  readonly part: string;
  readonly kind: "text" | "thinking" | "output";
  readonly text: string;
}

/** A part by its message, or a stream by its call. */
export function partKey(owner: string, part: string): string {
  return `${owner}/${part}`;
}
