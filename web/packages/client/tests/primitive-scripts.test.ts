/** The scripts of golden/primitives, as its README says; Python plays the same ones. */

import { afterEach, expect, test, vi } from "vitest";
import { ChatSession, MessageLog, MessageSteering, StreamingText, ToolConfirmations } from "../src/index.js";
import { createMockClient } from "../src/testing.js";
import { names, read } from "./golden.js";

type Json = Record<string, unknown>;

interface Script {
  ids: string[];
  primitive: keyof typeof KINDS;
  options: Json;
  durableQueue?: boolean;
  steps: Json[];
}

interface Played {
  readonly state: object;
  onStateChange(listener: () => void): () => void;
}

const KINDS = { MessageLog, ToolConfirmations, MessageSteering, ChatSession, StreamingText };
const SCRIPTS = names("primitives", ".json").filter(name => !name.startsWith("stream_"));
const policy = (table: Json) => (request: { name: string }) => table[request.name] ?? table["*"];
const deriver = (table: Json) => (now: { isExecuting: boolean; hasPendingConfirmation: boolean }) =>
  table[now.hasPendingConfirmation ? "pending" : now.isExecuting ? "executing" : "else"];
const READ: Record<string, (table: Json) => unknown> = { policy, confirmationPolicy: policy, deriveMode: deriver };

afterEach(() => {
  vi.useRealTimers();
});

function load(name: string): Script {
  return JSON.parse(read(`primitives/${name}`)) as Script;
}

/** A state as JSON: functions left out. */
function plain(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}

class Play {
  told = 0;
  readonly client;
  readonly accessor;
  readonly primitive: Played;

  constructor(script: Script) {
    vi.useFakeTimers({ toFake: ["Date"], now: 0 });
    this.client = createMockClient(undefined, { durableQueue: script.durableQueue ?? false });
    const options = Object.entries(script.options).map(([name, value]) => [name, READ[name]?.(value as Json) ?? value]);
    const Kind = KINDS[script.primitive] as new (client: unknown, options: Json) => Played;
    this.primitive = new Kind(this.client, Object.fromEntries(options) as Json);
    this.accessor = this.client.getAccessor("s1");
    this.primitive.onStateChange(() => {
      this.told += 1;
    });
  }

  do(step: Json): void {
    if ("event" in step) this.client._emitSessionEvent("s1", step.event as never);
    else if ("canonical" in step) this.client._emitCanonicalEvent("s1", step.canonical);
    else if ("confirmation" in step) this.client._emitToolConfirmation("s1", step.confirmation as never);
    else if ("queue" in step && this.accessor.queue) {
      this.accessor.queue.items = step.queue as never;
      this.accessor.queue.changed();
    } else if ("call" in step) {
      const methods = this.primitive as unknown as Record<string, (...args: unknown[]) => unknown>;
      methods[step.call as string]?.(...(step.args as unknown[]));
    } else if ("clock" in step) vi.setSystemTime(step.clock as number);
  }

  /** What went out and who was told; it is forgotten by this. */
  did(): Json {
    const { queue } = this.accessor;
    const did = {
      told: this.told,
      sent: this.client.sent.splice(0),
      answered: this.client.answered.splice(0),
      interrupted: this.accessor.interrupted.splice(0),
      promoted: queue?.promoted.splice(0).map(item => item.id) ?? [],
      resumed: queue?.resumed ?? 0,
    };
    this.told = 0;
    if (queue) queue.resumed = 0;
    return did;
  }
}

const NOTHING: Json = { told: 0, sent: [], answered: [], interrupted: [], promoted: [], resumed: 0 };

test.each(SCRIPTS)("a primitive plays %s as Python's does", name => {
  const script = load(name);
  const play = new Play(script);
  for (const [number, step] of script.steps.entries()) {
    const before = play.primitive.state;
    play.do(step);
    const where = `step ${number}: ${JSON.stringify(step)}`;
    const expected = Object.fromEntries(Object.entries(NOTHING).map(([key, nothing]) => [key, step[key] ?? nothing]));
    expect(play.did(), where).toEqual(expected);
    const state = plain(play.primitive.state);
    const wanted = (step.state ?? {}) as Json;
    expect(Object.fromEntries(Object.keys(wanted).map(key => [key, state[key]])), where).toEqual(wanted);
    expect(play.primitive.state === before, `a state is new exactly when somebody is told; ${where}`).toBe(step.told === 0);
  }
});

test("there is a script for each primitive", () => {
  expect(new Set(SCRIPTS.map(name => load(name).primitive))).toEqual(new Set(Object.keys(KINDS)));
});
