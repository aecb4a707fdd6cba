/**
 * The shapes that the primitives speak: spec 000's, and what is particular to a daemon with a durable queue and many approvals.
 * Python's `palaver.client` has the same objects with the same keys. An object may have more keys than are named here.
 */

import type { Envelope } from "./feed.js";

export type Unsubscribe = () => void;
export type ChatMode = "idle" | "streaming" | "confirming_tool";
export type SteeringMode = "steer" | "queue";
export type FlushMode = "sequential" | "batched";

// --- messages ------------------------------------------------------------------------------------------------------------------

/** `text`, `tool_use`, `tool_result`, `reasoning`, or a file by its `ref`. Which keys there are follows from `type`. */
export interface ContentBlock {
  readonly type: string;
  readonly text?: string;
  readonly id?: string;
  /** The call of a result; newer tool_use blocks have their own id here. */
  readonly toolUseId?: string;
  readonly name?: string;
  readonly input?: unknown;
  readonly content?: unknown;
  readonly isError?: boolean;
  readonly ref?: string;
  readonly mimeType?: string;
}

export type Content = string | readonly ContentBlock[];

export interface Message {
  readonly id?: string;
  readonly role: "user" | "assistant" | "tool" | "event";
  readonly content: Content;
  readonly interrupted?: boolean;
}

export interface TimelineEntry {
  readonly kind: "message";
  readonly message: Message;
}

export interface ToolCallEntry {
  readonly id: string;
  readonly name: string;
  readonly status: "done";
  /** Milliseconds. */
  readonly duration?: number;
}

export interface ChatMessage {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly content: Content;
  readonly toolCalls?: readonly ToolCallEntry[] | undefined;
}

export interface SendInput {
  readonly messages: readonly Message[];
}

// --- events --------------------------------------------------------------------------------------------------------------------

/** What every event may say of where it stands. */
export interface EventStamp {
  readonly id?: string;
  readonly sequence?: number;
  readonly timestamp?: string;
  readonly sessionId?: string;
}

export interface ExecutionStartEvent extends EventStamp {
  readonly type: "execution_start";
  readonly executionId?: string;
}

export interface ExecutionEndEvent extends EventStamp {
  readonly type: "execution_end";
  readonly executionId?: string;
  readonly output?: { readonly timeline?: readonly TimelineEntry[] } | null | undefined;
  readonly newTimelineEntries?: readonly TimelineEntry[] | null | undefined;
  readonly aborted?: boolean;
  readonly stopReason?: string;
  readonly error?: { readonly code: string; readonly message: string } | null;
}

export interface ToolCallStartEvent extends EventStamp {
  readonly type: "tool_call_start";
  readonly callId: string;
  readonly name?: string;
}

export interface ToolResultEvent extends EventStamp {
  readonly type: "tool_result";
  readonly callId: string;
  readonly name?: string;
  readonly result?: unknown;
  readonly isError?: boolean;
  /** As it was measured where the tool ran. */
  readonly durationMs?: number;
}

/** What was there before the first event: once after `subscribe`, and again when the log was replaced. */
export interface SessionRestoredEvent extends EventStamp {
  readonly type: "session_restored";
  readonly messages: readonly ChatMessage[];
  readonly executionId: string | null;
  /** What `messages` was made from, for whoever transforms it otherwise. */
  readonly timeline?: readonly TimelineEntry[];
  readonly toolDurations?: Readonly<Record<string, number>>;
}

/** Somebody answered, wherever it was; or it expired, or its turn was cancelled. */
export interface ToolConfirmationSettledEvent extends EventStamp {
  readonly type: "tool_confirmation_settled";
  readonly callId: string;
  readonly approved?: boolean;
  readonly by?: string;
}

/** A text that this client sent is on disk; `delivered` says what became of it. */
export interface MessageAcceptedEvent extends EventStamp {
  readonly type: "message_accepted";
  readonly clientMessageId: string;
  readonly text: string;
  readonly delivered: string;
  readonly turnId?: string | null;
}

/** A text that this client sent was not taken: the composer gets it back. */
export interface MessageRefusedEvent extends EventStamp {
  readonly type: "message_refused";
  readonly clientMessageId?: string;
  readonly text: string;
  readonly code: string;
  readonly message: string;
}

/** Nothing more comes of this session: it was deleted, or this client may not read it. */
export interface StreamFailedEvent extends EventStamp {
  readonly type: "stream_failed";
  readonly code: string;
  readonly message: string;
}

export type StreamEvent =
  | ExecutionStartEvent
  | ExecutionEndEvent
  | ToolCallStartEvent
  | ToolResultEvent
  | SessionRestoredEvent
  | ToolConfirmationSettledEvent
  | MessageAcceptedEvent
  | MessageRefusedEvent
  | StreamFailedEvent;

export type EventHandler = (event: StreamEvent) => void;

// --- confirmations -------------------------------------------------------------------------------------------------------------

export interface ToolConfirmationRequest {
  readonly toolUseId: string;
  readonly name: string;
  readonly arguments: unknown;
  readonly message?: string;
  /** `approvalId, subject, kind, preview, options, turnId, deadline?`, and `refused {code, message}` where an answer was not taken. */
  readonly metadata?: Readonly<Record<string, unknown>>;
}

export interface ToolConfirmationResponse {
  readonly approved: boolean;
  readonly reason?: string | undefined;
  readonly modifiedArguments?: unknown;
  /** For the rest of the session. */
  readonly always?: boolean;
}

export type ConfirmationDecision =
  | { readonly action: "prompt" }
  | { readonly action: "approve" }
  | { readonly action: "deny"; readonly reason?: string };

export type Respond = (response: ToolConfirmationResponse) => void;
export type ConfirmationPolicy = (request: ToolConfirmationRequest) => ConfirmationDecision;
export type ConfirmationHandler = (request: ToolConfirmationRequest, respond: Respond) => void;

// --- functions that a caller may replace ---------------------------------------------------------------------------------------

export interface MessageTransformContext {
  /** Milliseconds by call id, of the execution that ended. */
  readonly toolDurations: ReadonlyMap<string, number>;
  /** Messages without an id become `msg-<n>` from here on, so that no two of one log share one. */
  readonly firstFallback?: number;
}

export type MessageTransform = (entries: TimelineEntry[], context: MessageTransformContext) => ChatMessage[];

export type ChatModeDeriver<T extends string = ChatMode> = (input: { isExecuting: boolean; hasPendingConfirmation: boolean }) => T;

// --- states --------------------------------------------------------------------------------------------------------------------

/** A text that was not taken. */
export interface ChatError {
  readonly code: string;
  readonly message: string;
  readonly text: string;
}

export interface ToolConfirmationState {
  readonly request: ToolConfirmationRequest;
  readonly respond: Respond;
}

export interface MessageLogState {
  readonly messages: readonly ChatMessage[];
}

export interface ToolConfirmationsState {
  /** The newest one that is unanswered. */
  readonly pending: ToolConfirmationState | null;
  /** All of them, the oldest first. */
  readonly pendingAll: readonly ToolConfirmationState[];
}

export interface MessageSteeringState {
  readonly queued: readonly Message[];
  readonly isExecuting: boolean;
  readonly mode: SteeringMode;
  readonly error: ChatError | null;
}

export interface ChatSessionState<T extends string = ChatMode> {
  readonly messages: readonly ChatMessage[];
  readonly chatMode: T;
  readonly toolConfirmation: ToolConfirmationState | null;
  readonly toolConfirmations: readonly ToolConfirmationState[];
  readonly lastSubmitted: string | null;
  readonly queued: readonly Message[];
  readonly isExecuting: boolean;
  readonly mode: SteeringMode;
  readonly error: ChatError | null;
}

export interface StreamingTextState {
  /** Of the assistant's newest message, as far as it is known. */
  readonly text: string;
  readonly thinking: string;
  readonly isStreaming: boolean;
  readonly messageId: string | null;
}

// --- options -------------------------------------------------------------------------------------------------------------------

export interface MessageLogOptions {
  sessionId?: string | undefined;
  /** What is there already. Without it the daemon's history is taken. */
  initialMessages?: readonly ChatMessage[] | undefined;
  transform?: MessageTransform | undefined;
  /** False: somebody else calls `processEvent`. */
  subscribe?: boolean | undefined;
}

export interface ToolConfirmationsOptions {
  sessionId?: string | undefined;
  policy?: ConfirmationPolicy | undefined;
  /** False: somebody else calls `handleConfirmation`, and `processEvent` for what was settled elsewhere. */
  subscribe?: boolean | undefined;
}

export interface MessageSteeringOptions {
  sessionId?: string | undefined;
  mode?: SteeringMode | undefined;
  flushMode?: FlushMode | undefined;
  autoFlush?: boolean | undefined;
  /** False: somebody else calls `processEvent`, and `processQueue` when a durable queue changed. */
  subscribe?: boolean | undefined;
}

export interface ChatSessionOptions<T extends string = ChatMode> extends MessageSteeringOptions {
  initialMessages?: readonly ChatMessage[] | undefined;
  transform?: MessageTransform | undefined;
  confirmationPolicy?: ConfirmationPolicy | undefined;
  deriveMode?: ChatModeDeriver<T> | undefined;
  /** Called for every event before it is processed. */
  onEvent?: EventHandler | undefined;
  /** False: listens, and leaves it to others that the session is read. */
  autoSubscribe?: boolean | undefined;
}

// --- the seam to a session -----------------------------------------------------------------------------------------------------

export interface QueueItem {
  /** Null until the daemon has it. */
  readonly id: string | null;
  readonly message: Message;
  readonly paused: boolean;
  readonly clientMessageId?: string;
}

/** A queue that somebody else keeps, so that two clients see one. Every change of it is told to `onChange`. */
export interface DurableQueue {
  readonly items: readonly QueueItem[];
  readonly paused: boolean;
  add(message: Message): unknown;
  remove(item: QueueItem): void;
  clear(): void;
  resume(): void;
  promote(item: QueueItem): void;
  onChange(listener: () => void): Unsubscribe;
}

/** One session, as the primitives need it. */
export interface SessionAccessor {
  readonly sessionId: string;
  readonly queue?: DurableQueue;
  subscribe?(): void;
  unsubscribe?(): void;
  send?(input: SendInput): unknown;
  interrupt(input: SendInput): unknown;
  abort?(): unknown;
  onEvent(handler: EventHandler): Unsubscribe;
  onToolConfirmation(handler: ConfirmationHandler): Unsubscribe;
  onCanonicalEvent?(handler: (envelope: Envelope) => void): Unsubscribe;
}

/** All that the primitives know of a client. */
export interface ClientSeam {
  send(input: SendInput, options?: { sessionId?: string; delivery?: "queue" }): unknown;
  session(id: string): SessionAccessor;
  /** All that the sessions which are read here tell. */
  onEvent?(handler: EventHandler): Unsubscribe;
}
