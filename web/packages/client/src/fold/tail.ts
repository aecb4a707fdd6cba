/** Text in flight: it lies beside what the log confirms until the log brings it, or it is dropped. */

import type { Provisional } from "../wire.gen.js";
import { afterCodePoints, codePoints } from "./code-points.js";
import type { Fold } from "./fold.js";
import { partKey, type Tail } from "./page.js";

/** Take a provisional piece: only what lies beyond what is there. One that starts further on is ignored, the log will bring it. */
export function showTail(fold: Fold, piece: Provisional): Fold {
  if (piece.type === "model_output_delta") {
    const { message_id: owner, part_id: part, kind, offset, text } = piece.data;
    const key = partKey(owner, part);
    const ended = fold.parts.has(key) && fold.open.chars(key) === undefined;
    if (fold.messages.has(owner) && !ended) grow(fold, key, { owner, part, kind, text: "" }, offset, text);
  } else if (piece.type === "tool_output_delta") {
    const { tool_call_id: owner, stream: part, offset, text } = piece.data;
    if (fold.calls.get(owner)?.cell.call?.state === "pending") {
      grow(fold, partKey(owner, part), { owner, part, kind: "output", text: "" }, offset, text);
    }
  }
  return fold;
}

/** Cut back to what logged events confirm: on every new connection. */
export function dropProvisional(fold: Fold): Fold {
  fold.tails.clear();
  return fold;
}

/** The log brought `text`: so much of the tail is no longer provisional. */
export function tailConfirmed(fold: Fold, key: string, text: string): void {
  const tail = fold.tails.get(key);
  if (tail === undefined) return;
  const rest = afterCodePoints(tail.text, codePoints(text));
  if (rest === "") fold.tails.delete(key);
  else fold.tails.set(key, { ...tail, text: rest });
}

function grow(fold: Fold, key: string, empty: Tail, offset: number, text: string): void {
  const tail = fold.tails.get(key) ?? empty;
  const have = (fold.open.chars(key) ?? 0) + codePoints(tail.text);
  if (offset > have || have >= offset + codePoints(text)) return;
  fold.tails.set(key, { ...tail, text: tail.text + afterCodePoints(text, have - offset) });
}
