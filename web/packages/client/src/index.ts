/** A Palaver daemon seen from TypeScript: the pieces that a chat is built from, and the fold that shows a session. */

export { AgenticSession, type AgenticSessionState, type SessionInfo } from "./agentic-session.js";
export { ChatSession } from "./chat-session.js";
export { defaultDeriveMode, defaultTransform, extractToolCalls, timelineToMessages } from "./chat-transforms.js";
export type * from "./chat-types.js";
export { Client, type ClientOptions, createClient } from "./client.js";
export { type Connection, proof, type Query } from "./connection.js";
export { Failed, PalaverError, Refused } from "./errors.js";
export type { Envelope, Follower } from "./feed.js";
export * from "./fold/index.js";
export type { Handle, PostOptions } from "./handle.js";
export { MessageLog } from "./message-log.js";
export { MessageSteering } from "./message-steering.js";
export { whole } from "./refs.js";
export type { OutboxItem, Session } from "./session.js";
export type { SessionFacts, SessionQueue } from "./session-facts.js";
export type { ConnectionState, WatchFrame } from "./socket.js";
export { Store } from "./store.js";
export { StreamingText } from "./streaming-text.js";
export { Timeline } from "./timeline.js";
export { ToolConfirmations } from "./tool-confirmations.js";
export { Transcript, type TranscriptClient, type TranscriptOptions, type TranscriptState } from "./transcript.js";
export { visible } from "./visible.js";
export type * as wire from "./wire.gen.js";
