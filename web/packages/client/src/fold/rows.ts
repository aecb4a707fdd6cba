/** Entries and blocks of a fold: how they come in. */

import type { Logged, Message } from "../wire.gen.js";
import type { Cell, Fold, Row } from "./fold.js";

/** A new entry at the end, with the turn of the event that it begins with. */
export function add(fold: Fold, event: Logged, message: Message | null): Row {
  return fold.add({ message, cells: [], ...(event.turn_id === null ? {} : { turn_id: event.turn_id }) });
}

/** The entry of an assistant's message, new where it is not there yet. */
export function assistant(fold: Fold, event: Logged, id: string): Row {
  const begun: Message = { id, role: "assistant", parts: [], created_at: event.ts, author: { kind: "agent" } };
  return fold.messages.get(id) ?? add(fold, event, begun);
}

export function append(fold: Fold, row: Row, cell: Cell, ts: string): Cell {
  endText(fold, row, ts);
  row.cells.push(cell);
  fold.indexCell(row, cell);
  fold.touch(row, cell);
  return cell;
}

/** A text that streamed ends when the next block begins, or with its message. */
export function endText(fold: Fold, row: Row, ts: string): void {
  const last = row.cells.at(-1);
  if (last?.started_at === undefined || last.ended_at !== undefined) return;
  last.ended_at = ts;
  fold.touch(row, last);
}
