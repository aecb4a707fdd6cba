/** The hooks, under React 18 and 19: what they give, and that they survive what React does to components. */

import type { ChatSessionOptions, StreamEvent, Unsubscribe } from "@palaver/client";
import { createMockClient, type MockClient, makeEvent } from "@palaver/client/testing";
import { act, render, renderHook, waitFor } from "@testing-library/react";
import { type ReactNode, StrictMode, Suspense, useEffect, version } from "react";
import { beforeEach, describe, expect, test } from "vitest";
import {
  PalaverProvider,
  useAcpCommands,
  useAcpMode,
  useAcpSessionModel,
  useAgenticSession,
  useChat,
  useClient,
  useEvents,
  useMessageSteering,
  useMessages,
  useStreamingText,
  useToolConfirmations,
  useTranscript,
} from "../src/index.js";

let client: MockClient;

beforeEach(() => {
  client = createMockClient(undefined, { durableQueue: false });
});

function Around({ children }: { children: ReactNode }): ReactNode {
  return <PalaverProvider client={client}>{children}</PalaverProvider>;
}

function Strictly({ children }: { children: ReactNode }): ReactNode {
  return (
    <StrictMode>
      <Around>{children}</Around>
    </StrictMode>
  );
}

function emit(event: StreamEvent, sessionId = "s1"): void {
  act(() => client._emitSessionEvent(sessionId, event));
}

function ends(id: string, text: string): StreamEvent {
  const message = { id, role: "user", content: [{ type: "text", text }] };
  return makeEvent("execution_end", { newTimelineEntries: [{ kind: "message", message }] });
}

test("this is the React that it says", () => {
  expect(version.split(".")[0]).toBe(process.env.REACT);
});

describe("what they give", () => {
  test("useMessages: the messages, and clear", () => {
    const { result } = renderHook(() => useMessages({ sessionId: "s1" }), { wrapper: Around });
    emit(ends("u1", "Hi"));
    expect(result.current.messages.map(message => message.id)).toEqual(["u1"]);
    act(() => result.current.clear());
    expect(result.current.messages).toEqual([]);
  });

  test("useToolConfirmations: the newest that waits, all of them, and respond", () => {
    const { result } = renderHook(() => useToolConfirmations({ sessionId: "s1" }), { wrapper: Around });
    act(() => client._emitToolConfirmation("s1", { toolUseId: "c1", name: "shell", arguments: {} }));
    act(() => client._emitToolConfirmation("s1", { toolUseId: "c2", name: "shell", arguments: {} }));
    expect(result.current.pending?.request.toolUseId).toBe("c2");
    expect(result.current.pendingAll.length).toBe(2);
    act(() => result.current.respond({ approved: false, reason: "no" }));
    expect(client.answered).toEqual([{ approved: false, reason: "no" }]);
    expect(result.current.pending?.request.toolUseId).toBe("c1");
  });

  test("useMessageSteering: the queue and its verbs", () => {
    const { result } = renderHook(() => useMessageSteering({ sessionId: "s1", mode: "queue" }), { wrapper: Around });
    emit(makeEvent("execution_start"));
    act(() => void result.current.submit("later"));
    expect(result.current.queued.length).toBe(1);
    act(() => result.current.steer("now"));
    expect(client.sent.length).toBe(1);
    act(() => result.current.removeQueued(0));
    expect(result.current.queued).toEqual([]);
    act(() => result.current.setMode("steer"));
    expect(result.current.mode).toBe("steer");
  });

  test("useChat: every field of the state and every verb", () => {
    const { result } = renderHook(() => useChat({ sessionId: "s1" }), { wrapper: Around });
    const fields = [
      "messages",
      "chatMode",
      "toolConfirmation",
      "toolConfirmations",
      "lastSubmitted",
      "queued",
      "isExecuting",
      "mode",
      "error",
    ];
    const verbs = ["submit", "steer", "queue", "interrupt", "flush", "removeQueued", "clearQueued", "setMode"];
    expect(Object.keys(result.current).sort()).toEqual([...fields, ...verbs, "respondToConfirmation", "clearMessages"].sort());
    act(() => result.current.submit("Hi"));
    expect(result.current.lastSubmitted).toBe("Hi");
    emit(makeEvent("execution_start"));
    expect(result.current.chatMode).toBe("streaming");
    emit(ends("u1", "Hi"));
    expect(result.current).toMatchObject({ chatMode: "idle", lastSubmitted: null, messages: [{ id: "u1" }] });
  });

  test("useChat takes a deriver, a policy and a transform that are new at each render", () => {
    const options = (word: string): ChatSessionOptions<string> => ({
      sessionId: "s1",
      deriveMode: ({ isExecuting }) => (isExecuting ? `busy ${word}` : "idle"),
      confirmationPolicy: request => (request.name === "read_file" ? { action: "approve" } : { action: "prompt" }),
      transform: entries => entries.map((_, place) => ({ id: `${word}-${place}`, role: "user", content: word })),
    });
    const { result, rerender } = renderHook(({ word }) => useChat(options(word)), { wrapper: Around, initialProps: { word: "a" } });
    rerender({ word: "b" });
    emit(makeEvent("execution_start"));
    expect(result.current.chatMode).toBe("busy b");
    act(() => client._emitToolConfirmation("s1", { toolUseId: "c1", name: "read_file", arguments: {} }));
    expect(client.answered).toEqual([{ approved: true }]);
    emit(ends("u1", "Hi"));
    expect(result.current.messages.map(message => message.id)).toEqual(["b-0"]);
    expect(client.getAccessor("s1").subscriptions).toBe(1);
  });

  test("the first render shows what was there already", () => {
    const seen: number[] = [];
    const initialMessages = [{ id: "u0", role: "user" as const, content: "before" }];
    renderHook(() => seen.push(useMessages({ sessionId: "s1", initialMessages }).messages.length), { wrapper: Around });
    expect(seen[0]).toBe(1);
  });

  test("no render of another session shows the messages of the one before", () => {
    const seen: Array<[string, number]> = [];
    const { rerender } = renderHook(({ id }) => seen.push([id, useMessages({ sessionId: id }).messages.length]), {
      wrapper: Strictly,
      initialProps: { id: "s1" },
    });
    emit(ends("u1", "Hi"));
    rerender({ id: "s2" });
    expect(seen).toContainEqual(["s1", 1]);
    expect(seen).not.toContainEqual(["s2", 1]);
  });

  test("an effect of the same component can already act", () => {
    const Acting = () => {
      const { submit, lastSubmitted } = useChat({ sessionId: "s1" });
      useEffect(() => submit("at once"), [submit]);
      return lastSubmitted;
    };
    const { container } = render(<Acting />, { wrapper: Around });
    expect(container.textContent).toBe("at once");
    expect(client.sent.length).toBe(1);
  });

  test("without a provider they say what is missing", () => {
    expect(() => renderHook(() => useClient())).toThrow("PalaverProvider");
  });
});

describe("useEvents", () => {
  test("gives each event once, in order, in a commit of its own", async () => {
    const commits: Array<string | undefined> = [];
    const { result } = renderHook(
      () => {
        const shown = useEvents({ sessionId: "s1" });
        useEffect(() => {
          if (shown.event) commits.push(shown.event.id);
        }, [shown]);
        return shown;
      },
      { wrapper: Strictly },
    );
    act(() => {
      for (const id of ["a", "b", "c"]) client._emitSessionEvent("s1", makeEvent("execution_start", { id }));
    });
    emit(makeEvent("execution_end", { id: "d" }));
    expect(commits).toEqual(["a", "b", "c", "d"]);
    expect(result.current.events.map(event => event.id)).toEqual(["a", "b", "c", "d"]);
  });

  test("gives what the filter wants, and calls onEvent at once", () => {
    const heard: string[] = [];
    const { result } = renderHook(
      () => useEvents({ sessionId: "s1", filter: ["execution_end"], onEvent: event => void heard.push(event.type) }),
      { wrapper: Around },
    );
    emit(makeEvent("execution_start"));
    emit(makeEvent("execution_end"));
    expect(result.current.events.map(event => event.type)).toEqual(["execution_end"]);
    expect(heard).toEqual(["execution_end"]);
  });

  test("without a session gives the events of all of them", () => {
    const { result } = renderHook(() => useEvents(), { wrapper: Strictly });
    emit(makeEvent("execution_start", { id: "a" }), "s1");
    emit(makeEvent("execution_start", { id: "b" }), "s2");
    expect(result.current.events.map(event => event.id)).toEqual(["a", "b"]);
  });

  test("begins anew with another session", () => {
    const { result, rerender } = renderHook(({ sessionId }) => useEvents({ sessionId }), {
      wrapper: Strictly,
      initialProps: { sessionId: "s1" },
    });
    emit(makeEvent("execution_start", { id: "a" }));
    rerender({ sessionId: "s2" });
    expect(result.current).toEqual({ event: null, events: [] });
    emit(makeEvent("execution_start", { id: "b" }), "s2");
    expect(result.current.events.map(event => event.id)).toEqual(["b"]);
  });
});

const HOOKS: Record<string, (sessionId: string) => unknown> = {
  useMessages: sessionId => useMessages({ sessionId }),
  useToolConfirmations: sessionId => useToolConfirmations({ sessionId }),
  useMessageSteering: sessionId => useMessageSteering({ sessionId }),
  useChat: sessionId => useChat({ sessionId }),
  useEvents: sessionId => useEvents({ sessionId }),
  useStreamingText: sessionId => useStreamingText({ sessionId }),
};

describe.each(Object.entries(HOOKS))("%s has one live subscription", (_, useHook) => {
  test("after StrictMode's double mount, and none after the end", () => {
    const { unmount } = renderHook(() => useHook("s1"), { wrapper: Strictly });
    expect(client.getAccessor("s1").subscriptions).toBe(1);
    unmount();
    expect(client.getAccessor("s1").subscriptions).toBe(0);
  });

  test("after a change of session", () => {
    const { rerender } = renderHook(({ id }) => useHook(id), { wrapper: Strictly, initialProps: { id: "s1" } });
    rerender({ id: "s2" });
    expect(client.getAccessor("s1").subscriptions).toBe(0);
    expect(client.getAccessor("s2").subscriptions).toBe(1);
  });

  test("after renders that came to nothing", async () => {
    let go = (): void => {};
    const gate = new Promise<void>(resolve => {
      go = resolve;
    });
    let isOpen = false;
    const Waiting = () => {
      useHook("s1");
      if (!isOpen) throw gate;
      return "there";
    };
    const { container } = render(
      <Suspense fallback="waiting">
        <Waiting />
      </Suspense>,
      { wrapper: Strictly },
    );
    expect(container.textContent).toBe("waiting");
    expect(client.getAccessor("s1").subscriptions).toBe(0);
    await act(async () => {
      isOpen = true;
      go();
      await gate;
    });
    expect(container.textContent).toBe("there");
    expect(client.getAccessor("s1").subscriptions).toBe(1);
  });
});

describe("useTranscript", () => {
  let following = 0;

  beforeEach(() => {
    following = 0;
    const { follow } = client;
    client.follow = (id, follower): Unsubscribe => {
      const leave = follow(id, follower);
      following += 1;
      return () => {
        following -= 1;
        leave();
      };
    };
  });

  const head = { v: 1, ts: "2026-01-01T00:00:00.000Z", session_id: "s1", turn_id: "t1" };
  const said = (seq: number, id: string, text: string) => ({
    ...head,
    seq,
    type: "message_added",
    data: { message: { id, role: "user", parts: [{ type: "text", id: `p${id}`, text }], created_at: head.ts, author: { kind: "user" } } },
  });

  test("is one transcript for all who look, and each is rendered only when its part changes", async () => {
    const renders: Record<string, number> = { m1: 0, m2: 0 };
    const Row = ({ id }: { id: string }) => {
      const entry = useTranscript({ sessionId: "s1" }, state => state.page?.entries.find(one => one.message?.id === id));
      renders[id] = (renders[id] ?? 0) + 1;
      return <p>{entry?.blocks.map(block => ("part" in block ? block.part.text : ""))}</p>;
    };
    const { container, unmount } = render(
      <>
        <Row id="m1" />
        <Row id="m2" />
      </>,
      { wrapper: Strictly },
    );
    await waitFor(() => expect(following).toBe(1));
    client._emitCanonicalEvent("s1", said(1, "m1", "one"));
    await waitFor(() => expect(container.textContent).toBe("one"));
    const before = renders.m1;
    client._emitCanonicalEvent("s1", said(2, "m2", "two"));
    await waitFor(() => expect(container.textContent).toBe("onetwo"));
    expect(renders.m1).toBe(before);
    unmount();
    await waitFor(() => expect(following).toBe(0));
  });

  test("shows the other session at once after a change, and reads that alone", async () => {
    const { result, rerender } = renderHook(({ id }) => useTranscript({ sessionId: id }, state => state.page?.as_of_seq ?? null), {
      wrapper: Strictly,
      initialProps: { id: "s1" },
    });
    await waitFor(() => expect(result.current).toBe(0));
    client._emitCanonicalEvent("s1", said(1, "m1", "one"));
    await waitFor(() => expect(result.current).toBe(1));
    rerender({ id: "s2" });
    expect(result.current).toBeNull();
    await waitFor(() => expect(result.current).toBe(0));
    expect(following).toBe(1);
  });

  test("keeps what was selected where it is equal to before", async () => {
    const seen = new Set<unknown>();
    const { result } = renderHook(
      () => {
        const ids = useTranscript(
          { sessionId: "s1" },
          state => state.page?.entries.map(entry => entry.message?.id).filter(id => id === "m1") ?? [],
          (one, other) => one.join() === other.join(),
        );
        seen.add(ids);
        return useTranscript({ sessionId: "s1" }, state => state.page?.as_of_seq);
      },
      { wrapper: Around },
    );
    await waitFor(() => expect(result.current).toBe(0));
    for (const [place, id] of ["m1", "m2", "m3"].entries()) {
      client._emitCanonicalEvent("s1", said(place + 1, id, id));
      await waitFor(() => expect(result.current).toBe(place + 1));
    }
    expect(seen.size).toBe(2);
  });
});

describe("useAgenticSession", () => {
  const capabilities = { vision: false, tools: true, modes: true, commands: true };
  const modes = [{ id: "ask", name: "Ask" }];
  const offered = { available_modes: modes, available_models: [{ id: "m1", name: "One" }], available_commands: [] };
  const session = {
    id: "s1",
    agent: "a",
    workspace_path: "/w",
    status: "active",
    mode: "ask",
    model: "m1",
    head_seq: 4,
    capabilities,
    ...offered,
  };
  const asked: unknown[] = [];
  const head = { v: 1, ts: "2026-01-01T00:00:00.000Z", session_id: "s1", turn_id: null };
  const open = { approvals: [], questions: [], parts: [] };

  beforeEach(() => {
    asked.length = 0;
    client.request = async <T,>(method: string, path: string, body?: unknown): Promise<T> => {
      asked.push([method, path, body]);
      return (path.endsWith("/s1") ? session : {}) as T;
    };
  });

  const updated = (seq: number, changed: object, id = "s1") =>
    act(async () => client._emitCanonicalEvent(id, { ...head, session_id: id, seq, type: "session_updated", data: { session: changed } }));

  function useAll(sessionId: string) {
    const whole = useAgenticSession({ sessionId });
    return { whole, mode: useAcpMode({ sessionId }), model: useAcpSessionModel({ sessionId }), commands: useAcpCommands({ sessionId }) };
  }

  async function mounted() {
    const { result } = renderHook(() => useAll("s1"), { wrapper: Strictly });
    await act(async () => {});
    const queue = { items: [], paused: false };
    await act(async () => client._emitCanonicalEvent("s1", { ...head, type: "hello", data: { session: { ...session, queue }, open } }));
    return result;
  }

  test("holds what the agent offers, and the three hooks select from it", async () => {
    const result = await mounted();
    expect(result.current.whole).toMatchObject({ currentModeId: "ask", currentModelId: "m1", availableCommands: [] });
    expect(result.current.whole.capabilities).toEqual({
      supportsVision: false,
      supportsTools: true,
      supportsModes: true,
      supportsCommands: true,
    });
    expect(result.current.mode.availableModes).toEqual(modes);
    await act(() => result.current.mode.setMode("plan"));
    await act(() => result.current.model.setModel("m2"));
    expect(asked.slice(-2)).toEqual([
      ["POST", "/v1/sessions/s1/mode", { id: "plan" }],
      ["POST", "/v1/sessions/s1/model", { id: "m2" }],
    ]);
  });

  test("follows updates of modes, models and commands, of its own session alone", async () => {
    const result = await mounted();
    await updated(5, { mode: "plan" });
    expect(result.current.mode.currentModeId).toBe("plan");
    await updated(6, { model: "m2", available_models: [{ id: "m2", name: "Two" }] });
    expect(result.current.model).toMatchObject({ currentModelId: "m2", availableModels: [{ id: "m2", name: "Two" }] });
    await updated(7, { available_commands: [{ name: "review", input_hint: "what" }] });
    expect(result.current.commands.availableCommands).toEqual([{ name: "review", inputHint: "what" }]);
    await updated(8, { mode: "auto" }, "s2");
    expect(result.current.mode.currentModeId).toBe("plan");
  });
});
