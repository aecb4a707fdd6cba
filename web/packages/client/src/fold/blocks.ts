/** Blocks of calls, and blocks that say what an event says. */

import type * as wire from "../wire.gen.js";
import { type Cell, type Fold, factKey } from "./fold.js";
import type { Call, Facts } from "./page.js";
import { add, append, assistant } from "./rows.js";

type Json = Record<string, unknown>;

export function callStarted(fold: Fold, event: Extract<wire.Logged, { type: "tool_call_started" }>): void {
  const { tool_call, kind, title, run_by, locations, message_id, refs } = event.data;
  if (fold.calls.has(tool_call.id)) return;
  const begun = { state: "pending", truncated: false, output: [], output_chars: {} } as const;
  const call: Call = { ...tool_call, kind, title, run_by, locations, ...begun, ...(refs ? { refs } : {}) };
  const row = message_id === null ? add(fold, event, null) : assistant(fold, event, message_id);
  append(fold, row, { kind: "tool", call }, event.ts);
}

export function callCompleted(fold: Fold, data: wire.ToolCallCompleted): void {
  const place = fold.calls.get(data.tool_call.id);
  const call = place?.cell.call;
  if (place === undefined || call === undefined) return;
  const { tool_result: result, duration_ms, refs } = data;
  place.cell.call = {
    ...call,
    state: result.ok ? "success" : result.error?.code === "tool_interrupted" ? "interrupted" : "error",
    truncated: result.truncated ?? false,
    result,
    duration_ms,
    ...(refs ? { refs: { ...call.refs, ...refs } } : {}),
  };
  fold.touch(place.row, place.cell);
  fold.endTails(data.tool_call.id);
}

/** A block that says what an event says: in the place of its call's block, else in an entry of its own, else where it stood before. */
export function factShown(
  fold: Fold,
  event: wire.Logged,
  kind: keyof Facts,
  id: string,
  callId: string | null | undefined,
  more: Json = {},
): void {
  const data: Json = { ...event.data, ...more };
  const known = fold.facts.get(factKey(kind, id, event.turn_id ?? undefined));
  if (known !== undefined) {
    known.cell.data = data;
    return fold.touch(known.row, known.cell);
  }
  const place = fold.calls.get(callId ?? "");
  if (place === undefined) return void append(fold, add(fold, event, null), { kind, id, data }, event.ts);
  if (place.cell.kind !== "tool") return void append(fold, place.row, { kind, id, data }, event.ts);
  Object.assign(place.cell, { kind, id, data } satisfies Cell);
  fold.indexCell(place.row, place.cell);
  fold.touch(place.row, place.cell);
}

/** How it went on: the same block, its data with what came later; both say where the whole of their own strings is. */
export function moreOfFact(fold: Fold, kind: keyof Facts, id: string, data: object): void {
  const known = fold.facts.get(factKey(kind, id, undefined));
  if (known === undefined) return;
  const refs = { ...refsOf(known.cell.data), ...refsOf(data) };
  known.cell.data = { ...known.cell.data, ...data, ...(Object.keys(refs).length > 0 ? { refs } : {}) };
  fold.touch(known.row, known.cell);
}

/** One block for each plan and turn. Where a later call changes the plan, its own block goes and the plan's keeps that call. */
export function planUpdated(fold: Fold, event: Extract<wire.Logged, { type: "plan_updated" }>): void {
  const { plan, tool_call_id } = event.data;
  const home = fold.facts.get(factKey("plan", plan.id, event.turn_id ?? undefined));
  const place = fold.calls.get(tool_call_id ?? "");
  if (home !== undefined && place?.cell.call !== undefined && place.cell.kind === "tool") {
    place.row.cells = place.row.cells.filter(cell => cell !== place.cell);
    fold.touch(place.row);
    fold.forget(home.row, home.cell);
    home.cell.call = place.cell.call;
    fold.indexCell(home.row, home.cell);
  }
  factShown(fold, event, "plan", plan.id, tool_call_id);
}

function refsOf(data: object | undefined): object {
  return (data as { refs?: object } | undefined)?.refs ?? {};
}
