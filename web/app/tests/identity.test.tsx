/** CLIENTS 5: somebody who watched and somebody who loads the page now see the same rows, byte for byte, after every event of every golden log. */

import { dropProvisional, Fold, fromPage, show, showTail, toPage, type wire } from "@palaver/client";
import { act, cleanup, render } from "@testing-library/react";
import { afterEach, describe, expect, test } from "vitest";
import { type Here, HereContext, OpenContext, type OpenNow } from "../src/app/here";
import { entryKey } from "../src/blocks/keys";
import { Arming } from "../src/cards/arming";
import { Offline } from "../src/daemon/daemon";
import type { Entry } from "../src/shapes";
import { Row, type Tails } from "../src/transcript/Row";
import { Toggles } from "../src/transcript/toggles";

const FILES = import.meta.glob<string>(["../../../golden/*/log.ndjson", "../../../golden/commands/*/events.jsonl"], {
  query: "?raw",
  import: "default",
  eager: true,
});
const LOGS = Object.entries(FILES).map(([path, text]) => ({ name: path.split("/").slice(4, -1).join("/"), log: logged(text) }));

afterEach(cleanup);

function logged(text: string): wire.Logged[] {
  const lines = text.split("\n").filter(line => line !== "");
  return lines.map(line => JSON.parse(line) as wire.Logged);
}

const nobody = () => Promise.reject(new Offline());

function somewhere(): Here {
  return {
    sessionId: "sess_1",
    daemon: { ask: nobody, file: nobody },
    readOnly: false,
    arming: new Arming(),
    toggles: new Toggles(),
    agent: "demo",
    askedAt: () => undefined,
    onUsage: () => () => {},
    show: () => {},
    go: () => {},
    markdownOf: () => "",
    resend: () => {},
  };
}

/** The rows as the page's log has them. */
function Log({ fold, here }: { fold: Fold; here: Here }) {
  const page = toPage(fold);
  const open = page.open as unknown as OpenNow;
  const entries = page.entries as unknown as readonly Entry[];
  const tails: Record<string, Record<string, { kind: string; text: string }>> = {};
  for (const { owner, part, kind, text } of fold.tails.values()) tails[owner] = { ...tails[owner], [part]: { kind, text } };
  return (
    <HereContext value={here}>
      <OpenContext value={open}>
        {entries.map((entry, place) => {
          const before = entries[place - 1];
          const first = before === undefined || before.message?.role === "user" || before.turn_id !== entry.turn_id;
          const isOpen = open.turn !== undefined && open.turn.id === entry.turn_id;
          return <Row key={entryKey(entry)} entry={entry} tails={tails as Tails} first={first} open={isOpen} />;
        })}
      </OpenContext>
    </HereContext>
  );
}

/** Without what belongs to the moment: what docs/page.md names under Decisions. */
function rows(container: HTMLElement): string {
  const copy = container.cloneNode(true) as HTMLElement;
  for (const one of copy.querySelectorAll("[data-now]")) one.remove();
  for (const one of copy.querySelectorAll("time")) one.textContent = "";
  for (const one of copy.querySelectorAll("[data-ref]")) one.removeAttribute("src");
  for (const one of copy.querySelectorAll("details")) one.removeAttribute("open");
  return copy.innerHTML.replaceAll("><", ">\n<");
}

/** What a page shows that is opened now. */
function reloaded(fold: Fold): string {
  const fresh = fromPage(JSON.parse(JSON.stringify(toPage(fold))));
  const { container, unmount } = render(<Log fold={fresh} here={somewhere()} />);
  const shown = rows(container);
  unmount();
  return shown;
}

/** Numbers from 0 to 1, the same in every run. */
function dice(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1664525 + 1013904223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** A logged delta as the tail brings it before: pieces of any size, some of them across the log's own cuts. */
function* pieces(event: wire.Logged, random: () => number): Generator<wire.Provisional> {
  if (event.type !== "model_output_delta") return;
  const letters = [...event.data.text];
  for (let at = 0; at < letters.length; ) {
    const size = 1 + Math.floor(random() * 40);
    const data = { ...event.data, offset: (event.data.offset ?? 0) + at, text: letters.slice(at, at + size).join("") };
    yield { ...event, seq: undefined, data } as unknown as wire.Provisional;
    at += size;
  }
}

describe.each(LOGS)("$name", ({ log }) => {
  test("without the tail, live equals reloaded after every event", () => {
    const fold = new Fold();
    const here = somewhere();
    const { container, rerender } = render(<Log fold={fold} here={here} />);
    for (const event of log) {
      show(fold, event);
      rerender(<Log fold={fold} here={here} />);
      expect(rows(container), `after ${event.type} ${event.seq}`).toBe(reloaded(fold));
    }
    expect(container.querySelector(".broken")).toBeNull();
  });

  test.each([1, 2, 3])("with a tail in pieces of any size, they are equal whenever a message is complete (%i)", seed => {
    const random = dice(seed);
    const fold = new Fold();
    const here = somewhere();
    const { container, rerender } = render(<Log fold={fold} here={here} />);
    for (const event of log) {
      for (const piece of pieces(event, random)) {
        showTail(fold, piece);
        rerender(<Log fold={fold} here={here} />);
      }
      show(fold, event);
      if (random() < 0.1) dropProvisional(fold);
      act(() => rerender(<Log fold={fold} here={here} />));
      if (event.type === "model_output_completed") expect(rows(container), `after ${event.seq}`).toBe(reloaded(fold));
    }
    expect(rows(container)).toBe(reloaded(fold));
  });
});

test("there are logs to compare, and rows in them", () => {
  expect(LOGS.length).toBeGreaterThan(40);
});
