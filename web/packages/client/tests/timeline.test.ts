/** What an accessor makes of the daemon's events, in spec 000's words: the same as Python's, event by event. */

import { expect, test } from "vitest";
import { MessageLog, type StreamEvent, Timeline } from "../src/index.js";
import { createMockClient } from "../src/testing.js";
import { isLogged, lines, names, read } from "./golden.js";

interface Golden {
  log: string;
  events: StreamEvent[];
  restored: StreamEvent;
  open: unknown[];
}

const STREAMS = names("primitives", ".json").filter(name => name.startsWith("stream_"));

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}

function told(timeline: Timeline, log: string, from = 0, to = Number.POSITIVE_INFINITY): StreamEvent[] {
  const events = lines(log).filter(isLogged).slice(from, to);
  return events.flatMap(event => timeline.take(event));
}

function messagesAfter(events: readonly StreamEvent[]): unknown {
  const log = new MessageLog(createMockClient(), { sessionId: "s1", subscribe: false });
  for (const event of events) log.processEvent(event);
  return plain(log.messages);
}

test.each(STREAMS)("%s: a log tells its golden stream", name => {
  const golden = JSON.parse(read(`primitives/${name}`)) as Golden;
  const timeline = new Timeline();
  expect(plain(told(timeline, golden.log))).toEqual(golden.events);
  expect(plain(timeline.restored())).toEqual(golden.restored);
  expect(plain([...timeline.approvals.values()])).toEqual(golden.open);
});

test.each(STREAMS)("%s: a reader who joins at any event ends with the same messages", name => {
  const { log } = JSON.parse(read(`primitives/${name}`)) as Golden;
  const whole = new Timeline();
  const ended = messagesAfter(told(whole, log));
  if (whole.turnId !== null) return; // of an open turn a late reader has more
  for (let seq = 0; seq <= lines(log).length; seq += 1) {
    const timeline = new Timeline();
    told(timeline, log, 0, seq);
    expect(messagesAfter([timeline.restored(), ...told(timeline, log, seq)]), `joined at ${seq}`).toEqual(ended);
  }
});
