/**
 * What a session's log means in spec 000's words: a fold that gives the stream events for each logged one.
 *
 * Messages stand in the order in which the model got them: as `turn_started.message_ids` and `message_delivered` say, never where
 * `message_added` stood. A message is given once, also where a retry reads it again.
 */

import { timelineToMessages } from "./chat-transforms.js";
import type {
  Content,
  ContentBlock,
  EventStamp,
  ExecutionEndEvent,
  Message,
  SessionRestoredEvent,
  StreamEvent,
  TimelineEntry,
  ToolConfirmationRequest,
} from "./chat-types.js";
import type * as wire from "./wire.gen.js";

interface NamedResult extends wire.ToolResult {
  readonly name: string;
}

/** One message of the input, one of the assistant with its calls, or a call that the daemon made itself. */
interface Place {
  message?: wire.Message;
  calls: Map<string, wire.ToolCall>;
  readonly byDaemon?: true;
}

type Of<T extends wire.EventType> = Extract<wire.Logged, { type: T }>;

/** Fed with each logged envelope in order (`take`); costs O(1) for each, and a turn's length at its end. */
export class Timeline {
  /** The turn that runs, or waits for somebody. */
  turnId: string | null = null;
  /** The open ones by approval id, the oldest first. */
  readonly approvals = new Map<string, ToolConfirmationRequest>();
  /** Of every call, in milliseconds. */
  readonly durations = new Map<string, number>();
  readonly #inputs = new Map<string, wire.Message>();
  readonly #heard = new Set<string>();
  readonly #turns = new Map<string, Place[]>();
  readonly #said = new Map<string, Place>();
  readonly #results = new Map<string, NamedResult>();

  /** Fold the next event; a type that says nothing to a chat gives nothing. */
  take(event: wire.Logged): StreamEvent[] {
    switch (event.type) {
      case "message_added":
        this.#inputs.set(event.data.message.id, event.data.message);
        break;
      case "queue_changed":
        for (const item of event.data.items) if (item.message) this.#inputs.set(item.message_id, item.message);
        break;
      case "turn_started": {
        const executionId = event.turn_id ?? "";
        this.turnId = executionId;
        for (const id of event.data.message_ids) this.#hear(id, executionId);
        return [{ ...stamp(event), type: "execution_start", executionId }];
      }
      case "message_delivered":
        this.#hear(event.data.message_id, event.data.turn_id);
        break;
      case "model_output_started":
        this.#saying(event.data.message_id, event.turn_id);
        break;
      case "model_output_completed":
        this.#complete(event.data.message, event.turn_id);
        break;
      case "model_output_discarded":
        this.#discard(event.data.message_id, event.turn_id);
        break;
      case "tool_call_started": {
        const { id, name } = event.data.tool_call;
        this.#startCall(event);
        return [{ ...stamp(event), type: "tool_call_start", callId: id, name }];
      }
      case "tool_call_completed":
        return [this.#completeCall(event)];
      case "approval_requested":
        this.approvals.set(event.data.approval_id, confirmationOf(event));
        break;
      case "approval_granted":
      case "approval_denied":
        return this.#settle(event);
      case "turn_completed":
        return [this.#endTurn(event)];
    }
    return [];
  }

  /** What is complete so far. */
  entries(): TimelineEntry[] {
    return [...this.#turns.keys()].flatMap(turnId => this.#entriesOf(turnId));
  }

  /** Everything so far as one event. */
  restored(): SessionRestoredEvent {
    const timeline = this.entries();
    return {
      type: "session_restored",
      messages: timelineToMessages(timeline, this.durations),
      executionId: this.turnId,
      timeline,
      toolDurations: Object.fromEntries(this.durations),
    };
  }

  // --- what was heard and said -----------------------------------------------------------------------------------------------------

  #hear(messageId: string, turnId: string): void {
    const message = this.#inputs.get(messageId);
    if (message === undefined || this.#heard.has(messageId)) return;
    this.#heard.add(messageId);
    this.#put({ message, calls: new Map() }, turnId);
  }

  #put(place: Place, turnId: string | null): void {
    const places = this.#turns.get(turnId ?? "");
    if (places === undefined) this.#turns.set(turnId ?? "", [place]);
    else places.push(place);
  }

  #saying(messageId: string, turnId: string | null): Place {
    let place = this.#said.get(messageId);
    if (place === undefined) {
      place = { calls: new Map() };
      this.#said.set(messageId, place);
      this.#put(place, turnId);
    }
    return place;
  }

  /** The message names its calls in their order; one that it does not name came from the backend alone and follows. */
  #complete(message: wire.Message, turnId: string | null): void {
    const place = this.#saying(message.id, turnId);
    const named = (message.tool_calls ?? []).map(call => [call.id, call] as const);
    place.message = message;
    place.calls = new Map([...named, ...place.calls]);
  }

  #discard(messageId: string, turnId: string | null): void {
    const place = this.#said.get(messageId);
    const places = this.#turns.get(turnId ?? "");
    this.#said.delete(messageId);
    if (place !== undefined && places?.includes(place)) places.splice(places.indexOf(place), 1);
  }

  // --- calls and what they ask -----------------------------------------------------------------------------------------------------

  #startCall(event: Of<"tool_call_started">): void {
    const { tool_call: call, message_id } = event.data;
    if (message_id === null) return this.#put({ calls: new Map([[call.id, call]]), byDaemon: true }, event.turn_id);
    const { calls } = this.#saying(message_id, event.turn_id);
    if (!calls.has(call.id)) calls.set(call.id, call);
  }

  #completeCall(event: Of<"tool_call_completed">): StreamEvent {
    const { tool_call: call, tool_result: result, duration_ms: durationMs } = event.data;
    this.#results.set(call.id, { ...result, name: call.name });
    this.durations.set(call.id, durationMs);
    const told = { callId: call.id, name: call.name, result: resultContent(result), isError: !result.ok, durationMs };
    return { ...stamp(event), type: "tool_result", ...told };
  }

  #settle(event: Of<"approval_granted"> | Of<"approval_denied">): StreamEvent[] {
    const request = this.approvals.get(event.data.approval_id);
    if (!this.approvals.delete(event.data.approval_id) || request === undefined) return [];
    const approved = event.type === "approval_granted";
    return [{ ...stamp(event), type: "tool_confirmation_settled", callId: request.toolUseId, approved, by: event.data.by }];
  }

  // --- the end of a turn -----------------------------------------------------------------------------------------------------------

  #endTurn(event: Of<"turn_completed">): ExecutionEndEvent {
    const { outcome, stop_reason: stopReason, error } = event.data;
    const executionId = event.turn_id ?? "";
    if (this.turnId === executionId) this.turnId = null;
    const newTimelineEntries = this.#entriesOf(executionId);
    const aborted = outcome === "cancelled" || outcome === "interrupted";
    const ended = { ...stamp(event), type: "execution_end", executionId, newTimelineEntries, aborted, stopReason } as const;
    return error ? { ...ended, error } : ended;
  }

  #entriesOf(turnId: string): TimelineEntry[] {
    const messages = (this.#turns.get(turnId) ?? []).flatMap(place => this.#messages(place));
    return messages.map(message => ({ kind: "message", message }));
  }

  #messages({ message, calls, byDaemon }: Place): Message[] {
    if (message === undefined && !byDaemon) return [];
    const results = [...calls.keys()].flatMap(id => {
      const result = this.#results.get(id);
      return result === undefined ? [] : [{ id, role: "tool", content: [resultBlock(id, result)] } as const];
    });
    return message === undefined ? results : [messageOf(message, calls), ...results];
  }
}

export function stamp(event: { session_id: string; seq: number; ts: string }): EventStamp {
  return { id: `${event.session_id}/${event.seq}`, sequence: event.seq, timestamp: event.ts, sessionId: event.session_id };
}

/** A message in spec 000's shape; a role that it does not know is an event's. */
export function messageOf(message: wire.Message, calls: ReadonlyMap<string, wire.ToolCall> = new Map()): Message {
  const { id, role } = message;
  const made = { id, role: role === "system" ? "event" : role, content: blocksOf(message.parts, calls) } as const;
  return message.interrupted ? { ...made, interrupted: true } : made;
}

/** Content blocks as the parts of a message that a person sends. */
export function partsOf(content: Content): Record<string, unknown>[] {
  if (typeof content === "string") return [{ type: "text", text: content }];
  return content.map(({ mimeType, ...block }) => (mimeType === undefined ? block : { ...block, mime_type: mimeType }));
}

/** Parts as content blocks, each call at its place; calls without a place follow. */
function blocksOf(parts: readonly wire.Part[], calls: ReadonlyMap<string, wire.ToolCall>): ContentBlock[] {
  const placed = new Set(parts.filter(part => part.type === "tool_call").map(part => part.id));
  const rest = [...calls.values()].filter(call => !placed.has(call.id));
  return [...parts.flatMap(part => block(part, calls)), ...rest.map(toolUse)];
}

function block(part: wire.Part, calls: ReadonlyMap<string, wire.ToolCall>): ContentBlock[] {
  if (part.type === "tool_call") {
    const call = calls.get(part.id ?? "");
    return call === undefined ? [] : [toolUse(call)];
  }
  if (part.type === "text") return [{ type: "text", text: part.text ?? "" }];
  if (part.type === "thinking") return [{ type: "reasoning", text: part.text ?? "" }];
  const { type, ref, mime_type: mimeType, name } = part;
  return [{ type, ...(ref ? { ref } : {}), ...(mimeType ? { mimeType } : {}), ...(name ? { name } : {}) }];
}

function toolUse(call: wire.ToolCall): ContentBlock {
  return { type: "tool_use", id: call.id, name: call.name, input: call.input };
}

function resultBlock(toolUseId: string, result: NamedResult): ContentBlock {
  return { type: "tool_result", toolUseId, name: result.name, content: resultContent(result), isError: !result.ok };
}

/** What it says; of an error that brought no words, its message. */
function resultContent(result: wire.ToolResult): ContentBlock[] {
  const content = blocksOf(result.parts, new Map());
  return content.length === 0 && result.error ? [{ type: "text", text: result.error.message }] : content;
}

/** An approval as a confirmation. One that is about no call goes by its own id and its subject's name. */
export function confirmationOf(event: Of<"approval_requested">): ToolConfirmationRequest {
  const { approval_id: approvalId, subject, kind, preview, options, deadline, reason } = event.data;
  const call = event.data.tool_call ?? { id: approvalId, name: subject, input: {} };
  const metadata = { approvalId, turnId: event.turn_id, subject, kind, preview, options, ...(deadline ? { deadline } : {}) };
  const request = { toolUseId: call.id, name: call.name, arguments: call.input, metadata };
  return reason ? { ...request, message: reason } : request;
}
