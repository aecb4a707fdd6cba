/** One session on the socket, read by several: cursors, what is late on its way, a log that was replaced. */

import { expect, test } from "vitest";
import { Failed, Refused } from "../src/errors.js";
import { type Envelope, Feed, type Follower } from "../src/feed.js";

class Reader implements Follower {
  after: number;
  readonly got: Array<number | string> = [];

  constructor(after = 0) {
    this.after = after;
  }

  take(envelope: Envelope): void {
    this.got.push(envelope.seq ?? envelope.type);
  }

  begin(): void {
    this.got.push("begin");
  }

  fail(error: Error): void {
    this.got.push((error as Refused).code);
  }
}

const frame = (type: string, seq?: number, data = {}): Envelope => ({
  type,
  session_id: "s1",
  ts: "",
  data,
  ...(seq === undefined ? {} : { seq }),
});
const hello = (epoch: string): Envelope => frame("hello", undefined, { epoch });

function made(...readers: Reader[]): { feed: Feed; sent: Array<Record<string, unknown>> } {
  const sent: Array<Record<string, unknown>> = [];
  const feed = new Feed("s1", one => sent.push(one as Record<string, unknown>));
  for (const reader of readers) feed.followers.add(reader);
  feed.sync();
  return { feed, sent };
}

test("it subscribes once, from the cursor that is furthest behind, and nobody gets an event twice", () => {
  const early = new Reader(2);
  const late = new Reader(4);
  const { feed, sent } = made(early, late);
  feed.sync();
  expect(sent).toEqual([{ op: "subscribe", session_id: "s1", after: 2, tail: true }]);
  for (const one of [hello("a"), frame("x", 3), frame("x", 4), frame("x", 5), frame("caught_up"), frame("x", 5)]) feed.take(one);
  expect(early.got).toEqual(["hello", 3, 4, 5, "caught_up"]);
  expect(late.got).toEqual(["hello", 5, "caught_up"]);
});

test("frames of the subscription before come to nobody", () => {
  const reader = new Reader();
  const { feed, sent } = made(reader);
  feed.renew();
  feed.sync();
  for (const one of [hello("a"), frame("x", 1), hello("a"), frame("x", 1)]) feed.take(one);
  expect(sent.length).toBe(2);
  expect(reader.got).toEqual(["hello", 1]);
});

test("a log that was replaced is read again from its beginning", () => {
  const reader = new Reader();
  const { feed, sent } = made(reader);
  for (const one of [hello("a"), frame("x", 1)]) feed.take(one);
  feed.reset();
  feed.sync();
  for (const one of [hello("b"), frame("x", 2), hello("b"), frame("x", 1)]) feed.take(one);
  expect(sent.map(one => one.after)).toEqual([0, 1, 0]);
  expect(reader.got).toEqual(["hello", 1, "begin", "hello", 1]);
});

test("a cursor that the log does not have begins anew; any other refusal is the end", () => {
  const reader = new Reader(9);
  const { feed, sent } = made(reader);
  feed.refuse(new Refused("cursor_ahead", ""));
  expect(sent.map(one => one.after)).toEqual([9, 0]);
  feed.refuse(new Refused("not_found", ""));
  expect(reader.got).toEqual(["begin", "not_found"]);
  feed.take(frame("x", 1));
  expect(reader.got.length).toBe(2);
});

test("a deleted session ends for all who read it", () => {
  const readers = [new Reader(), new Reader()];
  const { feed } = made(...readers);
  for (const one of [hello("a"), frame("deleted")]) feed.take(one);
  for (const reader of readers) expect(reader.got).toEqual(["hello", "deleted"]);
});

test("a reader that throws harms no other", () => {
  const broken = new Reader();
  broken.take = () => {
    throw new Failed("mine", "this is meant to be in the output of the test");
  };
  const reader = new Reader();
  const { feed } = made(broken, reader);
  for (const one of [hello("a"), frame("x", 1)]) feed.take(one);
  expect(reader.got).toEqual(["hello", 1]);
});
