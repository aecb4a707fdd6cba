/**
 * What a client shows of a session: one fold of its events, live or reloaded. The same as Python's `views/transcript.py`, event by event;
 * `golden/` holds what both must come out as.
 *
 * - An entry stands where its first event stands and never moves; its blocks stand in order of first appearance.
 * - Nothing is sorted, rounded or timed here: strings are appended, replaced and counted in code points.
 * - What belongs to no message is an entry with `message: null`. An event of an unknown type, or about something that is not on this page,
 *   changes nothing here.
 */

import type * as wire from "../wire.gen.js";
import { callCompleted, callStarted, factShown, moreOfFact, planUpdated } from "./blocks.js";
import { codePoints, lastCodePoints } from "./code-points.js";
import type { Fold, Row } from "./fold.js";
import { partKey, type Refs } from "./page.js";
import { add, append, assistant, endText } from "./rows.js";
import { tailConfirmed } from "./tail.js";

/** Code points of a call's output that its block shows, the newest ones. */
export const OUTPUT_KEPT = 4096;

type Of<T extends wire.EventType> = Extract<wire.Logged, { type: T }>;

/** Take the next logged event. */
export function show(fold: Fold, event: wire.Logged): Fold {
  fold.asOfSeq = event.seq;
  fold.open.note(event);
  switch (event.type) {
    case "model_output_delta":
      text(fold, event);
      break;
    case "tool_output_delta":
      output(fold, event.data);
      break;
    case "message_added":
      messageAdded(fold, event);
      break;
    case "message_delivered":
      deliver(fold, event.data.message_id, "delivered");
      break;
    case "queue_changed":
      edited(fold, event.data);
      break;
    case "turn_started":
      for (const id of event.data.message_ids) deliver(fold, id, "own_turn");
      break;
    case "model_output_started":
      assistant(fold, event, event.data.message_id);
      break;
    case "model_output_completed":
      messageCompleted(fold, event);
      break;
    case "model_output_discarded":
      discard(fold, event.data.message_id);
      break;
    case "tool_call_started":
      callStarted(fold, event);
      break;
    case "tool_call_running":
      running(fold, event);
      break;
    case "tool_call_completed":
      callCompleted(fold, event.data);
      break;
    case "approval_requested":
      approvalRequested(fold, event);
      break;
    case "approval_granted":
      approvalSettled(fold, "granted", event.data);
      break;
    case "approval_denied":
      approvalSettled(fold, "denied", event.data);
      break;
    case "question_asked":
      factShown(fold, event, "ask_user", event.data.question_id, event.data.tool_call_id);
      break;
    case "question_answered":
      moreOfFact(fold, "ask_user", event.data.question_id, event.data);
      break;
    case "plan_updated":
      planUpdated(fold, event);
      break;
    case "verify_completed":
      factShown(fold, event, "verify", event.data.tool_call_id, event.data.tool_call_id);
      break;
    case "task_finalized":
      factShown(fold, event, "finalize_task", event.data.tool_call_id, event.data.tool_call_id);
      break;
    case "subagent_spawned":
      factShown(fold, event, "subagent", event.data.child_session_id, event.data.tool_call_id);
      break;
    case "subagent_finished":
      moreOfFact(fold, "subagent", event.data.child_session_id, event.data);
      break;
    case "exchange_sent":
      factShown(fold, event, "exchange", event.data.exchange_id, event.data.tool_call_id);
      break;
    case "exchange_replied":
      moreOfFact(fold, "exchange", event.data.exchange_id, event.data);
      break;
    case "files_changed":
      factShown(fold, event, "change_report", `changes:${event.turn_id}`, null);
      break;
    case "turn_undone":
      moreOfFact(fold, "change_report", `changes:${event.data.turn_id}`, { undone: event.data });
      break;
    case "context_compacted":
    case "model_fallback":
    case "notice":
      factShown(fold, event, "notice", `e${event.seq}`, null, { type: event.type });
      break;
    case "turn_completed":
      turnEnd(fold, event);
      break;
  }
  return fold;
}

// --- messages ------------------------------------------------------------------------------------------------------------------

function messageAdded(fold: Fold, event: Of<"message_added">): void {
  const { message, delivery, refs } = event.data;
  if (message.role === "tool") return;
  const row = fold.messages.get(message.id) ?? add(fold, event, message);
  if (delivery === "steer") row.delivery = "waiting";
  say(fold, row, message, refs ?? {});
}

/** A waiting message that became a queue item may be edited there; new items have no entry yet. */
function edited(fold: Fold, data: wire.QueueChanged): void {
  data.items.forEach((item, place) => {
    const row = item.message ? fold.messages.get(item.message_id) : undefined;
    if (item.message && row !== undefined) say(fold, row, item.message, below(`/items/${place}`, data.refs));
  });
}

function below(pointer: string, refs: Refs | null | undefined): Refs {
  const found = Object.entries(refs ?? {}).filter(([key]) => key.startsWith(`${pointer}/`));
  return Object.fromEntries(found.map(([key, ref]) => [key.slice(pointer.length), ref]));
}

/** The entry says this message and nothing else that a message says; blocks of other kinds stay behind it. */
function say(fold: Fold, row: Row, message: wire.Message, refs: Refs): void {
  const others = row.cells.filter(cell => cell.part === undefined);
  const said = message.parts.filter(part => part.type !== "tool_call").map(part => ({ kind: part.type as string, part }));
  row.message = message;
  row.cells = [...said, ...others];
  for (const cell of said) fold.indexCell(row, cell);
  if (Object.keys(refs).length > 0) row.refs = refs;
  else delete row.refs;
  fold.touch(row);
}

function deliver(fold: Fold, messageId: string, delivery: "delivered" | "own_turn"): void {
  const row = fold.messages.get(messageId);
  if (row?.delivery !== "waiting") return;
  row.delivery = delivery;
  fold.touch(row);
}

function text(fold: Fold, event: Of<"model_output_delta">): void {
  const { message_id, part_id, kind, text } = event.data;
  const row = assistant(fold, event, message_id);
  const key = partKey(message_id, part_id);
  const cell =
    fold.parts.get(key)?.cell ?? append(fold, row, { kind, part: { type: kind, id: part_id, text: "" }, started_at: event.ts }, event.ts);
  if (cell.part !== undefined) cell.part = { ...cell.part, text: (cell.part.text ?? "") + text };
  fold.touch(row, cell);
  tailConfirmed(fold, key, text);
}

function messageCompleted(fold: Fold, event: Of<"model_output_completed">): void {
  const { message } = event.data;
  const row = assistant(fold, event, message.id);
  row.message = message;
  for (const part of message.parts) if (part.type !== "tool_call") partCompleted(fold, row, message.id, part, event.ts);
  endText(fold, row, event.ts);
  if (message.interrupted) interrupted(fold, row, message.id, event.ts);
  fold.touch(row);
  fold.endTails(message.id);
}

function partCompleted(fold: Fold, row: Row, messageId: string, part: wire.Part, ts: string): void {
  const cell = fold.parts.get(partKey(messageId, part.id ?? ""))?.cell ?? append(fold, row, { kind: part.type, part }, ts);
  cell.kind = part.type;
  cell.part = part;
  fold.indexCell(row, cell);
  fold.touch(row, cell);
}

function interrupted(fold: Fold, row: Row, messageId: string, ts: string): void {
  const last = row.cells.findLast(cell => cell.kind === "text" || cell.kind === "thinking");
  const cell = last ?? append(fold, row, { kind: "text", part: { type: "text", id: messageId, text: "" } }, ts);
  cell.interrupted = true;
  fold.touch(row, cell);
}

function discard(fold: Fold, messageId: string): void {
  const row = fold.messages.get(messageId);
  if (row === undefined) return;
  fold.messages.delete(messageId);
  fold.remove(row);
  for (const cell of row.cells) fold.forget(row, cell);
  if (row.turn_id !== undefined && fold.last.get(row.turn_id) === row) findLast(fold, row.turn_id);
  fold.endTails(messageId);
}

function findLast(fold: Fold, turnId: string): void {
  const row = fold.rows.findLast(one => one.turn_id === turnId);
  if (row === undefined) fold.last.delete(turnId);
  else fold.last.set(turnId, row);
}

// --- calls and what they ask ---------------------------------------------------------------------------------------------------

function running(fold: Fold, event: Of<"tool_call_running">): void {
  const place = fold.calls.get(event.data.tool_call_id);
  if (place?.cell.call === undefined) return;
  place.cell.call = { ...place.cell.call, started_at: event.ts };
  fold.touch(place.row, place.cell);
}

function output(fold: Fold, data: wire.ToolOutputDelta): void {
  const place = fold.calls.get(data.tool_call_id);
  const call = place?.cell.call;
  if (place === undefined || call === undefined) return;
  place.cell.call = {
    ...call,
    output: newest([...call.output, { stream: data.stream, text: data.text }]),
    output_chars: { ...call.output_chars, [data.stream]: (call.output_chars[data.stream] ?? 0) + codePoints(data.text) },
  };
  fold.touch(place.row, place.cell);
  tailConfirmed(fold, partKey(data.tool_call_id, data.stream), data.text);
}

/** Whole pieces go, oldest first; only a piece that is too long by itself is cut, between two code points. */
function newest(output: { stream: string; text: string }[]): { stream: string; text: string }[] {
  let kept = output.reduce((sum, piece) => sum + codePoints(piece.text), 0);
  let first = 0;
  for (; kept > OUTPUT_KEPT && first < output.length - 1; first += 1) kept -= codePoints(output[first]?.text ?? "");
  const [oldest, ...others] = output.slice(first);
  if (oldest === undefined || kept <= OUTPUT_KEPT) return output.slice(first);
  return [{ ...oldest, text: lastCodePoints(oldest.text, OUTPUT_KEPT) }, ...others];
}

function approvalRequested(fold: Fold, event: Of<"approval_requested">): void {
  const { approval_id, tool_call } = event.data;
  const approval = { id: approval_id, status: "waiting" } as const;
  const place = tool_call === null ? undefined : fold.calls.get(tool_call.id);
  if (place?.cell.call === undefined) return void factShown(fold, event, "approval", approval_id, null, { approval });
  place.cell.call = { ...place.cell.call, approval };
  fold.approvals.set(approval_id, place);
  fold.touch(place.row, place.cell);
}

function approvalSettled(fold: Fold, status: "granted" | "denied", data: wire.ApprovalGranted | wire.ApprovalDenied): void {
  const told = ["by", "cause", "scope", "reason", "input", "refs"].filter(key => key in data);
  const answer = Object.fromEntries(told.map(key => [key, (data as unknown as Record<string, unknown>)[key]]));
  fold.changeApproval(data.approval_id, record => ({ ...record, status, ...answer }));
}

function turnEnd(fold: Fold, event: Of<"turn_completed">): void {
  const turnId = event.turn_id ?? "";
  const row = fold.last.get(turnId) ?? add(fold, event, null);
  append(fold, row, { kind: "turn_end", id: turnId, data: { ...event.data } }, event.ts);
}
