/** From timeline entries to what a chat shows. Pure, and each can be replaced. */

import type { ChatMessage, ChatMode, Content, MessageTransformContext, TimelineEntry, ToolCallEntry } from "./chat-types.js";

/** `timelineToMessages` as a transform. */
export function defaultTransform(entries: readonly TimelineEntry[], context: MessageTransformContext): ChatMessage[] {
  return timelineToMessages(entries, context.toolDurations, context.firstFallback);
}

/**
 * The messages of person and assistant, in order; what is no message, and every other role, is left out.
 * A message without an id gets `msg-<n>`: its place among the entries, counted from `firstFallback`.
 */
export function timelineToMessages(
  entries: readonly TimelineEntry[],
  toolDurations: ReadonlyMap<string, number>,
  firstFallback = 0,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  for (const [place, entry] of entries.entries()) {
    const { kind, message } = entry as Partial<TimelineEntry>; // what comes from outside may lack either
    if (kind !== "message" || message === undefined) continue;
    if (message.role !== "user" && message.role !== "assistant") continue;
    const calls = extractToolCalls(message.content).map(call => withDuration(call, toolDurations));
    messages.push({
      id: message.id || `msg-${firstFallback + place}`,
      role: message.role,
      content: message.content,
      toolCalls: calls.length > 0 ? calls : undefined,
    });
  }
  return messages;
}

/** The calls that a content makes. Their id stands in `toolUseId` or in `id`, as old as the block is. */
export function extractToolCalls(blocks: Content): ToolCallEntry[] {
  if (typeof blocks === "string") return [];
  return blocks
    .filter(block => block.type === "tool_use")
    .map(block => ({ id: block.toolUseId ?? block.id ?? "", name: block.name ?? "", status: "done" }));
}

/** Who has to act: the person (`confirming_tool`), the agent (`streaming`), or nobody. */
export function defaultDeriveMode(input: { isExecuting: boolean; hasPendingConfirmation: boolean }): ChatMode {
  if (input.hasPendingConfirmation) return "confirming_tool";
  return input.isExecuting ? "streaming" : "idle";
}

function withDuration(call: ToolCallEntry, durations: ReadonlyMap<string, number>): ToolCallEntry {
  const duration = durations.get(call.id);
  return duration === undefined ? call : { ...call, duration };
}
