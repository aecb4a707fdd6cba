export * from "./use-agentic-session.js";
export * from "./use-chat.js";
export * from "./use-events.js";
export * from "./use-message-steering.js";
export * from "./use-messages.js";
export * from "./use-streaming-text.js";
export * from "./use-tool-confirmations.js";
export * from "./use-transcript.js";
