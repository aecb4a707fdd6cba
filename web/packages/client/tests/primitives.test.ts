/** The rules of spec 000's primitives that a script cannot say: what is subscribed, who is told, what can be replaced, what is typed. */

import { describe, expect, expectTypeOf, test, vi } from "vitest";
import * as all from "../src/index.js";
import {
  type ChatMessage,
  type ChatMode,
  ChatSession,
  type ConfirmationDecision,
  defaultDeriveMode,
  defaultTransform,
  type ExecutionEndEvent,
  extractToolCalls,
  MessageLog,
  MessageSteering,
  type StreamEvent,
  type TimelineEntry,
  type ToolCallEntry,
  type ToolCallStartEvent,
  ToolConfirmations,
  type ToolResultEvent,
  timelineToMessages,
} from "../src/index.js";
import { createMockClient, makeEvent } from "../src/testing.js";

const REQUEST = { toolUseId: "c1", name: "shell", arguments: {} };
const said = (id: string, role: "user" | "assistant" = "user"): TimelineEntry => ({ kind: "message", message: { id, role, content: id } });
const ends = (...entries: TimelineEntry[]): ExecutionEndEvent => makeEvent("execution_end", { newTimelineEntries: entries });
const KINDS = [MessageLog, ToolConfirmations, MessageSteering, ChatSession] as const;

describe.each(KINDS.map(Kind => ({ name: Kind.name, Kind })))("$name", ({ Kind }) => {
  test("subscribes itself with a session, once, until it is destroyed", () => {
    const client = createMockClient();
    const store = new Kind(client, { sessionId: "s1" });
    expect(client.getAccessor("s1").subscriptions).toBe(1);
    store.destroy();
    store.destroy();
    expect(client.getAccessor("s1").subscriptions).toBe(0);
  });

  test("subscribes to nothing when it is driven from outside, or has no session", () => {
    const client = createMockClient(vi.fn);
    new Kind(client, { sessionId: "s1", subscribe: false });
    expect(client.getAccessor("s1").subscribe).not.toHaveBeenCalled();
    vi.mocked(client.session).mockClear();
    new Kind(client);
    expect(client.session).not.toHaveBeenCalled();
  });

  test("tells a listener until it leaves, and nobody after it is destroyed", () => {
    const client = createMockClient();
    const store = new Kind(client, { sessionId: "s1" });
    const [one, other] = [vi.fn(), vi.fn()];
    const leave = store.onStateChange(one);
    store.onStateChange(other);
    const happen = () => {
      client._emitSessionEvent("s1", makeEvent("execution_start"));
      client._emitSessionEvent("s1", ends(said("u1")));
      client._emitToolConfirmation("s1", REQUEST);
    };
    const before = store.state;
    happen();
    leave();
    const told = one.mock.calls.length;
    expect(told).toBeGreaterThan(0);
    expect(store.state).not.toBe(before);
    happen();
    expect(one).toHaveBeenCalledTimes(told);
    const heard = other.mock.calls.length;
    store.destroy();
    happen();
    expect(other).toHaveBeenCalledTimes(heard);
  });
});

describe("a message log", () => {
  test("copies the initial messages", () => {
    const initialMessages: ChatMessage[] = [{ id: "u0", role: "user", content: "Hi" }];
    const log = new MessageLog(createMockClient(), { initialMessages });
    initialMessages.pop();
    expect(log.messages.length).toBe(1);
  });

  test("gives a transform the entries and durations, and shows what it makes", () => {
    const transform = vi.fn(() => [{ id: "own", role: "assistant" as const, content: "mine" }]);
    const log = new MessageLog(createMockClient(), { transform });
    log.processEvent(makeEvent("tool_result", { callId: "c1", durationMs: 12 }));
    log.processEvent(ends(said("u1")));
    expect(transform).toHaveBeenCalledWith([said("u1")], { toolDurations: new Map([["c1", 12]]), firstFallback: 0 });
    expect(log.messages).toEqual([{ id: "own", role: "assistant", content: "mine" }]);
  });

  test("has timelineToMessages as its default transform, with the durations of the calls", () => {
    const content = [{ type: "tool_use", id: "c1", name: "search", input: {} }];
    const entries: TimelineEntry[] = [said("u1"), { kind: "message", message: { id: "a1", role: "assistant", content } }];
    const toolDurations = new Map([["c1", 7]]);
    const [first, second] = defaultTransform(entries, { toolDurations });
    expect([first, second]).toEqual(timelineToMessages(entries, toolDurations));
    expect(first?.toolCalls).toBeUndefined();
    expect(second?.toolCalls).toEqual([{ id: "c1", name: "search", status: "done", duration: 7 }]);
    expect(extractToolCalls(content)).toEqual([{ id: "c1", name: "search", status: "done" }]);
  });
});

describe("a policy", () => {
  const policies: Array<[string, (name: string) => ConfirmationDecision, string, unknown]> = [
    [
      "of a power user approves what reads",
      name => ({ action: ["read_file", "glob"].includes(name) ? "approve" : "prompt" }),
      "glob",
      { approved: true },
    ],
    ["of a power user asks about the rest", name => ({ action: name === "glob" ? "approve" : "prompt" }), "shell", undefined],
    ["of a robot approves everything", () => ({ action: "approve" }), "shell", { approved: true }],
    [
      "of a restricted place denies with its reason",
      () => ({ action: "deny", reason: "not here" }),
      "shell",
      { approved: false, reason: "not here" },
    ],
    ["that throws leaves it to the person", () => JSON.parse("{"), "shell", undefined],
  ];

  test.each(policies)("%s", (_, decide, name, answer) => {
    const respond = vi.fn();
    const confirmations = new ToolConfirmations(createMockClient(), { policy: request => decide(request.name) });
    confirmations.handleConfirmation({ ...REQUEST, name }, respond);
    if (answer === undefined) expect(confirmations.pending?.request.name).toBe(name);
    else expect(respond).toHaveBeenCalledExactlyOnceWith(answer);
    expect(confirmations.pending === null).toBe(answer !== undefined);
  });
});

describe("a chat", () => {
  test("is one subscription over its parts, with one notification for each event, in its order", () => {
    const client = createMockClient(vi.fn);
    const order: string[] = [];
    const chat = new ChatSession(client, { sessionId: "s1", onEvent: event => order.push(`hook ${event.type} ${chat.chatMode}`) });
    chat.onStateChange(() => order.push(`told ${chat.chatMode} ${chat.messages.length}`));
    expect(client.getAccessor("s1").subscribe).toHaveBeenCalledTimes(1);
    client._emitSessionEvent("s1", makeEvent("execution_start"));
    client._emitToolConfirmation("s1", REQUEST);
    client._emitSessionEvent("s1", ends(said("u1")));
    expect(order).toEqual([
      "hook execution_start idle",
      "told streaming 0",
      "told confirming_tool 0",
      "hook execution_end confirming_tool",
      "told confirming_tool 1",
    ]);
  });

  test("derives its mode by a function that can build on the default", () => {
    let isBroken = true;
    const chat = new ChatSession<ChatMode | "error">(createMockClient(), {
      sessionId: "s1",
      deriveMode: input => (defaultDeriveMode(input) === "idle" && isBroken ? "error" : defaultDeriveMode(input)),
    });
    expect(chat.chatMode).toBe("error");
    isBroken = false;
    chat.setMode("queue");
    expect(chat.chatMode).toBe("idle");
    expect(defaultDeriveMode({ isExecuting: true, hasPendingConfirmation: true })).toBe("confirming_tool");
    expect(defaultDeriveMode({ isExecuting: true, hasPendingConfirmation: false })).toBe("streaming");
  });

  test("has a getter for each field of its state", () => {
    const chat = new ChatSession(createMockClient(), { sessionId: "s1" });
    for (const [name, value] of Object.entries(chat.state)) expect((chat as unknown as Record<string, unknown>)[name], name).toBe(value);
  });

  test("does not have the session read where that is left to others", () => {
    const client = createMockClient(vi.fn);
    const chat = new ChatSession(client, { sessionId: "s1", autoSubscribe: false });
    client._emitSessionEvent("s1", makeEvent("execution_start"));
    chat.destroy();
    expect(chat.isExecuting).toBe(true);
    expect(client.getAccessor("s1").subscribe).not.toHaveBeenCalled();
    expect(client.getAccessor("s1").unsubscribe).not.toHaveBeenCalled();
  });

  test("gives an interrupt's answer to whoever waits for it", async () => {
    const client = createMockClient(vi.fn);
    const handle = await new ChatSession(client, { sessionId: "s1" }).interrupt("Stop");
    expect(client.getAccessor("s1").interrupt).toHaveBeenCalledWith({
      messages: [{ role: "user", content: [{ type: "text", text: "Stop" }] }],
    });
    expect(handle).toHaveProperty("result");
  });

  test("calls every listener though one throws", () => {
    const client = createMockClient();
    const chat = new ChatSession(client, { sessionId: "s1" });
    const other = vi.fn();
    chat.onStateChange(() => JSON.parse("{ this is meant to be in the output of the test"));
    chat.onStateChange(other);
    client._emitSessionEvent("s1", makeEvent("execution_start"));
    expect(other).toHaveBeenCalledTimes(1);
  });
});

test("each concern can be had alone", () => {
  const client = createMockClient();
  const confirmations = new ToolConfirmations(client, { sessionId: "s1" });
  const log = new MessageLog(client, { sessionId: "s1" });
  client._emitToolConfirmation("s1", REQUEST);
  client._emitSessionEvent("s1", makeEvent("tool_call_start", { callId: "c1" }));
  client._emitSessionEvent("s1", ends(said("u1")));
  expect(confirmations.pending?.request).toBe(REQUEST);
  expect(log.messages.length).toBe(1);
});

test("events, entries and states are strictly typed", () => {
  expectTypeOf<Extract<StreamEvent, { type: "tool_call_start" }>>().toEqualTypeOf<ToolCallStartEvent>();
  expectTypeOf<Extract<StreamEvent, { type: "tool_result" }>>().toEqualTypeOf<ToolResultEvent>();
  expectTypeOf<Extract<StreamEvent, { type: "execution_end" }>>().toEqualTypeOf<ExecutionEndEvent>();
  expectTypeOf<TimelineEntry["kind"]>().toEqualTypeOf<"message">();
  expectTypeOf<ToolCallEntry["status"]>().toEqualTypeOf<"done">();
  expectTypeOf<ChatMode>().toEqualTypeOf<"idle" | "streaming" | "confirming_tool">();
  expectTypeOf<ChatSession["chatMode"]>().toEqualTypeOf<ChatMode>();
});

test("every name that the documents list is exported", () => {
  const names = ["createClient", "MessageLog", "ToolConfirmations", "MessageSteering", "ChatSession", "StreamingText", "Transcript"];
  const functions = ["defaultTransform", "timelineToMessages", "extractToolCalls", "defaultDeriveMode", "visible"];
  for (const name of [...names, ...functions]) expect(all, name).toHaveProperty(name);
});

test("the double wraps what a spy wants to see", () => {
  const client = createMockClient(vi.fn);
  const accessor = client.session("s1");
  new MessageSteering(client, { sessionId: "s1" }).submit("Hi");
  expect(client.send).toHaveBeenCalledWith({ messages: [{ role: "user", content: [{ type: "text", text: "Hi" }] }] }, { sessionId: "s1" });
  expect(client.getAccessor("s1")).toBe(accessor);
  for (const method of [accessor.subscribe, accessor.unsubscribe, accessor.abort, accessor.interrupt])
    expect(vi.isMockFunction(method)).toBe(true);
});
