/** CLIENTS 1: one fold, two languages. Python's transcript at N, and the events after N, equal Python's transcript at the end. */

import { describe, expect, inject, test } from "vitest";
import { dropProvisional, Fold, fromPage, type Page, show, showTail, toPage } from "../src/index.js";
import type { Logged } from "../src/wire.gen.js";
import { isLogged, lines } from "./golden.js";

interface Case {
  name: string;
  pages: Page[];
  /** Of a random log; a golden one is a file. */
  events?: Logged[];
}

const CASES = inject("transcripts")
  .split("\n")
  .filter(line => line !== "")
  .map(line => JSON.parse(line) as Case);

/** Events that bring a message again as a whole: its blocks may be equal and new. */
const SAYS_ANEW = new Set(["model_output_completed", "message_added", "queue_changed"]);

function parsed(fold: Fold): unknown {
  return JSON.parse(JSON.stringify(toPage(fold)));
}

function logged(name: string): Logged[] {
  return lines(name).filter(isLogged);
}

describe.each(CASES)("$name", ({ name, pages, events = logged(name) }) => {
  test("the fold equals Python's after every event", () => {
    const fold = new Fold();
    expect(parsed(fold)).toEqual(pages[0]);
    events.forEach((event, n) => {
      expect(parsed(show(fold, event)), `after ${event.type} ${event.seq}`).toEqual(pages[n + 1]);
    });
  });

  test("a fold that goes on from any of Python's pages ends where Python's ends", () => {
    for (const [n, page] of pages.entries()) {
      const fold = fromPage(structuredClone(page));
      for (const event of events.slice(n)) show(fold, event);
      expect(parsed(fold), `from ${n}`).toEqual(pages.at(-1));
    }
  });

  test("what was shown is never changed afterwards, and what did not change is shown again", () => {
    const fold = new Fold();
    for (const event of events) {
      const before = fold.entries;
      const copy = structuredClone(before);
      show(fold, event);
      expect(before).toEqual(copy);
      if (SAYS_ANEW.has(event.type) || ("text" in event.data && event.data.text === "")) continue;
      for (const [place, entry] of fold.entries.entries()) {
        for (const [at, block] of entry.blocks.entries()) {
          const was = before[place]?.blocks[at];
          if (was !== undefined && was !== block) expect(was, `${event.type} ${event.seq} made an equal block anew`).not.toEqual(block);
        }
      }
      expect(fold.entries).toBe(fold.entries);
    }
  });
});

test("there are golden logs to compare", () => {
  expect(CASES.length).toBeGreaterThan(40);
  expect(CASES.flatMap(one => one.pages).length).toBeGreaterThan(700);
});

describe("the tail", () => {
  test("changes nothing that is confirmed, and is gone when its message is complete", () => {
    const plain = new Fold();
    const tailed = new Fold();
    let pieces = 0;
    for (const event of lines("emoji/tail.ndjson")) {
      if (isLogged(event)) {
        show(plain, event);
        show(tailed, event);
        expect(parsed(tailed)).toEqual(parsed(plain));
        if (event.type === "model_output_completed") {
          expect([...tailed.tails.values()].filter(tail => tail.owner === event.data.message.id)).toEqual([]);
        }
      } else {
        pieces += 1;
        showTail(tailed, event);
      }
    }
    expect(pieces).toBeGreaterThan(5);
  });

  test("shows what lies beyond, ignores what starts further on, and is cut back on a new connection", () => {
    const fold = new Fold();
    const head = { v: 1, ts: "2026-01-01T00:00:00.000Z", session_id: "s", turn_id: "t" };
    const delta = (offset: number, text: string) => ({
      ...head,
      type: "model_output_delta" as const,
      data: { message_id: "m", part_id: "p", kind: "text" as const, offset, text },
    });
    show(fold, { ...head, seq: 1, type: "model_output_started", data: { message_id: "m", step_id: "st" } });
    showTail(fold, delta(0, "👩‍👩"));
    expect(fold.provisional("m", "p")).toBe("👩‍👩");
    showTail(fold, delta(2, "👩‍👧"));
    expect(fold.provisional("m", "p")).toBe("👩‍👩‍👧");
    showTail(fold, delta(9, "far"));
    expect(fold.provisional("m", "p")).toBe("👩‍👩‍👧");
    show(fold, { ...delta(0, "👩‍"), seq: 2 });
    expect(fold.provisional("m", "p")).toBe("👩‍👧");
    dropProvisional(fold);
    expect(fold.provisional("m", "p")).toBe("");
    expect(fold.entries[0]?.blocks[0]).toMatchObject({ kind: "text", part: { text: "👩‍" } });
  });
});

describe("what no golden log has", () => {
  const head = { v: 1, ts: "2026-01-01T00:00:00.000Z", session_id: "s", turn_id: "t" };
  let seq = 0;
  const put = (fold: Fold, type: string, data: object) => show(fold, { ...head, seq: ++seq, type, data } as unknown as Logged);
  const begun = (fold: Fold, id: string) => {
    const said = { kind: "exec", title: id, locations: [], run_by: "daemon", message_id: "m", step_id: "st" };
    put(fold, "tool_call_started", { tool_call: { id, name: "x", input: {} }, ...said });
  };
  const calls = (fold: Fold) =>
    fold.entries.flatMap(entry => entry.blocks).flatMap(block => ("call" in block && block.call ? [block.call] : []));

  test("an answer to an earlier approval of a call does not change the one that it has now", () => {
    const fold = new Fold();
    begun(fold, "c1");
    const asked = { subject: "tool", tool_call: { id: "c1", name: "x", input: {} }, kind: "exec", preview: {}, options: [] };
    for (const approval_id of ["a1", "a2"]) put(fold, "approval_requested", { approval_id, ...asked });
    put(fold, "approval_denied", { approval_id: "a1", tool_call: null, by: "user", cause: "cancelled" });
    expect(calls(fold)[0]?.approval).toEqual({ id: "a2", status: "waiting" });
  });

  test("a plan that a later call changes no longer hears of its earlier call", () => {
    const fold = new Fold();
    for (const id of ["c1", "c2"]) {
      begun(fold, id);
      put(fold, "plan_updated", { tool_call_id: id, plan: { id: "p1", status: "executing", items: [] }, run_by: "daemon" });
    }
    const result = { id: "c1", ok: false, parts: [] };
    put(fold, "tool_call_completed", { tool_call: { id: "c1", name: "x" }, tool_result: result, duration_ms: 1 });
    expect(calls(fold).map(call => [call.id, call.state])).toEqual([["c2", "pending"]]);
  });
});
