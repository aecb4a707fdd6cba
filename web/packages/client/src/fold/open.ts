/** What of a session is open right now: its turn, what it asks, and the texts that still grow. What has ended is forgotten. */

import type { ApprovalRequested, Logged, QuestionAsked } from "../wire.gen.js";
import { codePoints } from "./code-points.js";
import { type OpenPage, type OpenPart, type OpenTurn, partKey } from "./page.js";

export class Open {
  #turn: OpenTurn | undefined;
  #approvals = new Map<string, ApprovalRequested>();
  #questions = new Map<string, QuestionAsked>();
  /** By `partKey`. The parts of a message stay until it is completed, the streams of a call until its result. */
  #parts = new Map<string, OpenPart>();
  #shown: OpenPage | undefined;

  constructor(page?: OpenPage) {
    if (page === undefined) return;
    this.#turn = page.turn;
    for (const approval of page.approvals) this.#approvals.set(approval.approval_id, approval);
    for (const question of page.questions) this.#questions.set(question.question_id, question);
    for (const part of page.parts) this.#parts.set(keyOf(part), part);
  }

  note(event: Logged): void {
    switch (event.type) {
      case "model_output_delta": {
        const { message_id, part_id, text } = event.data;
        return this.#grow({ message_id, part_id, chars: 0 }, text);
      }
      case "tool_output_delta": {
        const { tool_call_id, stream, text } = event.data;
        return this.#grow({ tool_call_id, stream, chars: 0 }, text);
      }
      case "model_output_completed":
        return this.#endParts(part => "message_id" in part && part.message_id === event.data.message.id);
      case "model_output_discarded":
        return this.#endParts(part => "message_id" in part && part.message_id === event.data.message_id);
      case "tool_call_completed":
        return this.#endParts(part => "tool_call_id" in part && part.tool_call_id === event.data.tool_call.id);
      case "turn_started":
        return this.#setTurn({ id: event.turn_id ?? "", started_at: event.ts, ...event.data });
      case "turn_cancel_requested":
        if (this.#turn !== undefined && this.#turn.id === event.turn_id) this.#setTurn({ ...this.#turn, cancel_requested: true });
        return;
      case "turn_completed":
        if (this.#turn?.id === event.turn_id) this.#setTurn(undefined);
        return;
      case "approval_requested":
        return this.#change(this.#approvals.set(event.data.approval_id, event.data));
      case "approval_granted":
      case "approval_denied":
        return this.#change(this.#approvals.delete(event.data.approval_id));
      case "question_asked":
        return this.#change(this.#questions.set(event.data.question_id, event.data));
      case "question_answered":
        return this.#change(this.#questions.delete(event.data.question_id));
    }
  }

  /** How far the log confirms a part; undefined for one that is not open. */
  chars(key: string): number | undefined {
    return this.#parts.get(key)?.chars;
  }

  /** As clients get it: the same object until something changes, with the same lists in it until they change. */
  toPage(): OpenPage {
    if (this.#shown === undefined) {
      const before = this.#last;
      this.#shown = this.#last = {
        ...(this.#turn === undefined ? {} : { turn: this.#turn }),
        approvals: kept(before?.approvals, [...this.#approvals.values()]),
        questions: kept(before?.questions, [...this.#questions.values()]),
        parts: kept(before?.parts, [...this.#parts.values()]),
      };
    }
    return this.#shown;
  }

  #last: OpenPage | undefined;

  #setTurn(turn: OpenTurn | undefined): void {
    this.#turn = turn;
    this.#shown = undefined;
  }

  #change(_changed: unknown): void {
    this.#shown = undefined;
  }

  #grow(empty: OpenPart, text: string): void {
    const key = keyOf(empty);
    const part = this.#parts.get(key) ?? empty;
    this.#parts.set(key, { ...part, chars: part.chars + codePoints(text) });
    this.#shown = undefined;
  }

  #endParts(isOver: (part: OpenPart) => boolean): void {
    for (const [key, part] of this.#parts) if (isOver(part)) this.#parts.delete(key);
    this.#shown = undefined;
  }
}

function keyOf(part: OpenPart): string {
  return "message_id" in part ? partKey(part.message_id, part.part_id) : partKey(part.tool_call_id, part.stream);
}

function kept<T>(before: readonly T[] | undefined, now: readonly T[]): readonly T[] {
  return before !== undefined && before.length === now.length && before.every((one, place) => one === now[place]) ? before : now;
}
