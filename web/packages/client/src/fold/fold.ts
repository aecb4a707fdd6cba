/**
 * What a fold of a session's events holds: rows with cells, found by the ids of what stands in them.
 *
 * Rows and cells are changed in place; what is shown of them (`entries`) is made anew only where something changed, so that a reader who
 * compares with `===` sees exactly the blocks that changed. Values inside a cell are replaced, never written into.
 */

import type { Message, Part } from "../wire.gen.js";
import { Open } from "./open.js";
import { type ApprovalRecord, type Block, type Call, type Entry, type Page, partKey, type Refs, type Tail } from "./page.js";

/** A block that can change. Which fields there are follows from `kind`: `part` for content, `call` for `tool`, `id` and `data` else. */
export interface Cell {
  kind: string;
  part?: Part;
  interrupted?: boolean;
  started_at?: string;
  ended_at?: string;
  call?: Call;
  id?: string;
  data?: Record<string, unknown>;
  shown?: Block | undefined;
}

/** An entry that can change. */
export interface Row {
  message: Message | null;
  cells: Cell[];
  turn_id?: string;
  delivery?: "waiting" | "delivered" | "own_turn";
  refs?: Refs;
  shown?: Entry | undefined;
}

/** Where something stands. */
export interface Place {
  row: Row;
  cell: Cell;
}

export class Fold {
  asOfSeq = 0;
  open = new Open();
  earlier: string | null = null;
  later: string | null = null;
  rows: Row[] = [];
  /** By message id. */
  readonly messages = new Map<string, Row>();
  /** By `partKey`. */
  readonly parts = new Map<string, Place>();
  /** By call id. */
  readonly calls = new Map<string, Place>();
  /** By `factKey`. */
  readonly facts = new Map<string, Place>();
  /** Where each approval's record is, by its id. */
  readonly approvals = new Map<string, Place>();
  /** The last row of each turn. */
  readonly last = new Map<string, Row>();
  /** By `partKey`. One whose block is not there yet belongs at the end of its message's entry. */
  readonly tails = new Map<string, Tail>();
  #entries: readonly Entry[] | undefined;

  /** What is shown now; the same list, and the same entries and blocks in it, until they change. */
  get entries(): readonly Entry[] {
    this.#entries ??= this.rows.map(entryOf);
    return this.#entries;
  }

  /** What the tail holds beyond the confirmed text of a part (or of a call's stream). */
  provisional(owner: string, part: string): string {
    return this.tails.get(partKey(owner, part))?.text ?? "";
  }

  /** Say that a row, or one of its cells, is to be shown anew. */
  touch(row: Row, cell?: Cell): void {
    this.#entries = undefined;
    row.shown = undefined;
    if (cell !== undefined) cell.shown = undefined;
  }

  add(row: Row): Row {
    this.rows.push(row);
    this.#entries = undefined;
    this.index(row);
    return row;
  }

  remove(row: Row): void {
    this.rows.splice(this.rows.lastIndexOf(row), 1);
    this.#entries = undefined;
  }

  /** Put an older page in front. What stands here already stays as it is, and so does the last row of each turn. */
  prepend(older: Fold): void {
    const rows = older.rows.filter(row => row.message === null || !this.messages.has(row.message.id));
    for (const row of rows) {
      const last = this.last.get(row.turn_id ?? "");
      this.index(row);
      if (last !== undefined) this.last.set(row.turn_id ?? "", last);
      for (const cell of row.cells) this.indexCell(row, cell);
    }
    this.rows = [...rows, ...this.rows];
    this.earlier = older.earlier;
    this.#entries = undefined;
  }

  index(row: Row): void {
    if (row.message !== null) this.messages.set(row.message.id, row);
    if (row.turn_id !== undefined) this.last.set(row.turn_id, row);
  }

  indexCell(row: Row, cell: Cell): void {
    const place = { row, cell };
    if (cell.part?.id && row.message !== null) this.parts.set(partKey(row.message.id, cell.part.id), place);
    if (cell.call !== undefined) {
      this.calls.set(cell.call.id, place);
      if (cell.call.approval !== undefined) this.approvals.set(cell.call.approval.id, place);
    }
    if (cell.id !== undefined) {
      this.facts.set(factKey(cell.kind, cell.id, row.turn_id), place);
      if (cell.kind === "approval") this.approvals.set(cell.id, place);
    }
  }

  forget(row: Row, cell: Cell): void {
    if (cell.part?.id && row.message !== null) this.parts.delete(partKey(row.message.id, cell.part.id));
    if (cell.call !== undefined) {
      this.calls.delete(cell.call.id);
      if (cell.call.approval !== undefined) this.approvals.delete(cell.call.approval.id);
      this.endTails(cell.call.id);
    }
    if (cell.id !== undefined) this.facts.delete(factKey(cell.kind, cell.id, row.turn_id));
  }

  /** Change an approval's record where it stands; a call that was asked about again no longer shows the earlier one. */
  changeApproval(id: string, change: (record: ApprovalRecord) => ApprovalRecord): void {
    const { row, cell } = this.approvals.get(id) ?? {};
    if (row === undefined || cell === undefined) return;
    const own = cell.data?.approval as ApprovalRecord | undefined;
    if (cell.call?.approval?.id === id) cell.call = { ...cell.call, approval: change(cell.call.approval) };
    else if (own?.id === id) cell.data = { ...cell.data, approval: change(own) };
    else return;
    this.touch(row, cell);
  }

  endTails(owner: string): void {
    for (const [key, tail] of this.tails) if (tail.owner === owner) this.tails.delete(key);
  }
}

export function factKey(kind: string, id: string, turnId: string | undefined): string {
  return kind === "plan" ? `plan:${turnId ?? null}:${id}` : `${kind}:${id}`;
}

/** The fold as a page: what `GET …/transcript` would answer. Provisional text is not in it. */
export function toPage(fold: Fold): Page {
  return { as_of_seq: fold.asOfSeq, entries: fold.entries, open: fold.open.toPage(), earlier: fold.earlier, later: fold.later };
}

/** A fold that goes on where the page ends: with the event after `as_of_seq`. */
export function fromPage(page: Page): Fold {
  const fold = new Fold();
  fold.asOfSeq = page.as_of_seq;
  fold.open = new Open(page.open);
  fold.earlier = page.earlier;
  fold.later = page.later;
  for (const entry of page.entries) {
    const { blocks, ...fields } = entry;
    const row: Row = fold.add({ ...fields, cells: blocks.map(block => ({ ...block }) as Cell), shown: entry });
    row.cells.forEach((cell, place) => {
      cell.shown = blocks[place];
      fold.indexCell(row, cell);
    });
  }
  return fold;
}

function entryOf(row: Row): Entry {
  if (row.shown === undefined) {
    const { cells, shown: _, ...fields } = row;
    row.shown = { ...fields, blocks: cells.map(blockOf) };
  }
  return row.shown;
}

function blockOf(cell: Cell): Block {
  if (cell.shown === undefined) {
    const { shown: _, ...fields } = cell;
    cell.shown = fields as unknown as Block; // which fields there are follows from the kind
  }
  return cell.shown;
}
