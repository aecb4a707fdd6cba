/** SECURITY 19: nothing hides; one table for both languages. */

import { expect, test } from "vitest";
import { visible } from "../src/index.js";
import { read } from "./golden.js";

const TABLE = JSON.parse(read("visible.json")) as Array<{ in: string; out: string; prose?: string }>;

test.each(TABLE)("$in comes out as $out", row => {
  expect(visible(row.in)).toBe(row.out);
});

test("prose keeps its blanks and joiners", () => {
  for (const row of TABLE) expect(visible(row.in, { prose: true })).toBe(row.prose ?? row.out);
});

test("different texts come out different", () => {
  const outs = TABLE.map(row => visible(row.in));
  expect(new Set(outs).size).toBe(outs.length);
});
