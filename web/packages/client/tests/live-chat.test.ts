/** The primitives on a real daemon: one queue for all, answers from anywhere, joining late, breaking off and going on. */

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import {
  AgenticSession,
  ChatSession,
  type ChatSessionOptions,
  type Client,
  createClient,
  MessageLog,
  type StreamEvent,
  StreamingText,
  ToolConfirmations,
  Transcript,
  type WatchFrame,
} from "../src/index.js";
import { Daemon, until } from "./daemon.js";

let daemon: Daemon;
let client: Client;

beforeEach(async () => {
  daemon = await new Daemon().start();
  client = daemon.client();
});

afterEach(() => daemon.end());

/** A chat, once it has been told what was there. */
async function joined(from: Client, sessionId: string, options: ChatSessionOptions = {}): Promise<ChatSession & { told: string[] }> {
  const told: string[] = [];
  const onEvent = (event: StreamEvent) => {
    told.push(event.type);
    options.onEvent?.(event);
  };
  const chat = new ChatSession(from, { ...options, sessionId, onEvent });
  await until(() => told.includes("session_restored"), "nothing was restored");
  return Object.assign(chat, { told });
}

async function started(options: ChatSessionOptions = {}, fields = {}): Promise<ChatSession & { told: string[] }> {
  return joined(client, await client.newSession(daemon.workspace, fields), options);
}

const ended = (chat: { told: string[] }, turns = 1) =>
  until(() => chat.told.filter(type => type === "execution_end").length >= turns, `turn ${turns} did not end`);
const words = (chat: ChatSession) =>
  chat.messages.map(({ role, content }) => [role, typeof content === "string" ? content : content[0]?.text]);
const queued = (chat: ChatSession) => chat.queued.map(({ content }) => (typeof content === "string" ? content : content[0]?.text));

/** A turn that has said something and goes on for long: whatever comes next is not read as part of what it was asked. */
async function busy(chat: ChatSession): Promise<void> {
  const streaming = new StreamingText(client, { sessionId: chat.sessionId });
  chat.submit("write 3 words then wait 20 seconds");
  await until(() => streaming.text !== "", "it did not begin to write");
  streaming.destroy();
}

test("a turn ends in messages, with the durations that the daemon measured", async () => {
  const chat = await started();
  chat.submit("search for hello");
  expect(chat.lastSubmitted).toBe("search for hello");
  await until(() => chat.isExecuting || chat.told.includes("execution_end"));
  await ended(chat);
  expect(words(chat)[0]).toEqual(["user", "search for hello"]);
  expect(chat.messages.flatMap(message => message.toolCalls ?? [])).toMatchObject([
    { name: "search", status: "done", duration: expect.any(Number) },
  ]);
  expect(chat).toMatchObject({ lastSubmitted: null, chatMode: "idle" });
});

test("who joins late is told what was there, and then sees the same", async () => {
  const chat = await started();
  chat.submit("write 5 words");
  await ended(chat);
  const other = await joined(daemon.client(), chat.sessionId ?? "");
  expect(other.messages).toEqual(chat.messages);
  const log = new MessageLog(client, { sessionId: chat.sessionId });
  await until(() => log.messages.length > 0, "a late primitive was not greeted");
  expect(log.messages).toEqual(chat.messages);
  other.submit("write 6 words");
  await ended(chat, 2);
  await ended(other, 1);
  expect(other.messages).toEqual(chat.messages);
});

test("two clients see one queue; what one removes never runs, and a second removal is no error", async () => {
  const chat = await started();
  const other = await joined(daemon.client(), chat.sessionId ?? "");
  await busy(chat);
  await until(() => other.isExecuting);
  chat.queue("write 33 words");
  other.queue("write 4 words");
  expect(queued(chat)).toEqual(["write 33 words"]);
  await until(() => queued(chat).length === 2 && queued(other).length === 2, "the queue is not one");
  expect(queued(chat)).toEqual(queued(other));
  const place = queued(chat).indexOf("write 33 words");
  chat.removeQueued(place);
  other.removeQueued(place);
  await Promise.all([client.drain(), until(() => queued(other).length === 1 && queued(chat).length === 1)]);
  client.session(chat.sessionId ?? "").abort();
  await ended(chat);
  expect(chat.messages.some(message => JSON.stringify(message).includes("write 33 words"))).toBe(false);
  chat.flush();
  await ended(chat, 2);
  expect(
    words(chat)
      .filter(([role]) => role === "user")
      .at(-1),
  ).toEqual(["user", "write 4 words"]);
  expect(queued(chat)).toEqual([]);
});

test("steers join the running turn, one POST each, in order; an interrupt takes its place", async () => {
  const chat = await started();
  await busy(chat);
  const { delivered } = await client.send(
    { messages: ["one", "two"].map(text => ({ role: "user", content: text })) },
    { sessionId: chat.sessionId ?? "" },
  ).result;
  expect(delivered).toBe("steered");
  await chat.interrupt("write 2 words");
  await ended(chat, 2);
  const said = words(chat).flatMap(([role, text]) => (role === "user" ? [text] : []));
  expect(said).toEqual(["write 3 words then wait 20 seconds", "one", "two", "write 2 words"]);
});

test("approvals are asked of everybody, and an answer anywhere settles them everywhere", async () => {
  const chat = await started();
  const other = await joined(daemon.client(), chat.sessionId ?? "");
  chat.submit("run the command `echo hi`");
  await until(() => chat.toolConfirmation && other.toolConfirmation, "nobody was asked");
  expect(chat.chatMode).toBe("confirming_tool");
  expect(chat.toolConfirmation?.request).toMatchObject({ name: "shell", arguments: { command: "echo hi" } });
  const late = new ToolConfirmations(client, { sessionId: chat.sessionId });
  await until(() => late.pending, "who joins late is not asked");
  other.respondToConfirmation({ approved: false, reason: "not that" });
  await until(() => chat.toolConfirmation === null && late.pending === null, "it was not settled");
  await ended(chat);
  expect(JSON.stringify(chat.messages)).toContain("not that");
});

test("a policy answers alone, changed arguments reach the tool, and an answer that comes second is no error", async () => {
  const asked: string[] = [];
  const chat = await started({
    confirmationPolicy: request => {
      asked.push(request.name);
      return { action: "prompt" };
    },
  });
  const robot = await joined(daemon.client(), chat.sessionId ?? "", { confirmationPolicy: () => ({ action: "approve" }) });
  chat.submit("run the command `echo from-the-model`");
  await until(() => asked.length === 1);
  chat.respondToConfirmation({ approved: true, modifiedArguments: { command: "echo from-the-person" } });
  await Promise.all([ended(chat), ended(robot)]);
  await client.drain();
  expect(robot.toolConfirmation).toBeNull();
  expect(asked).toEqual(["shell"]);
});

test("nobody is asked about what they cannot see whole", async () => {
  const chat = await started();
  const text = "long ".repeat(14_000);
  chat.submit(`write the file long.txt with "${text}"`);
  const { request } = await until(() => chat.toolConfirmation, "nobody was asked");
  expect(JSON.stringify(request.arguments).length).toBeGreaterThan(text.length);
  chat.respondToConfirmation({ approved: false, reason: "too long" });
  await ended(chat);
});

test("a daemon that asks for no token gets none", async () => {
  const open = await new Daemon().start(0, "--no-token");
  try {
    const guest = createClient({ url: open.url, WebSocket });
    const sessionId = await guest.newSession(open.workspace);
    const chat = await joined(guest, sessionId);
    chat.submit("write 5 words");
    await ended(chat);
    expect(chat.messages.length).toBe(2);
    guest.close();
  } finally {
    await open.end();
  }
});

test("a text that is not taken comes back with the reason", async () => {
  const chat = await started();
  await client.request("POST", `/v1/sessions/${chat.sessionId}/close`, {});
  chat.submit("too late");
  await until(() => chat.error, "no error");
  expect(chat.error).toMatchObject({ code: "session_closed", text: "too late" });
  expect(chat.lastSubmitted).toBeNull();
  await expect(client.drain()).rejects.toMatchObject({ code: "session_closed" });
});

test("text streams letter by letter and ends as the message", async () => {
  const sessionId = await client.newSession(daemon.workspace);
  const streaming = new StreamingText(client, { sessionId });
  const shown: string[] = [];
  streaming.onStateChange(() => shown.push(streaming.text));
  const chat = await joined(client, sessionId);
  chat.submit("write 60 words");
  await ended(chat);
  expect(new Set(shown).size).toBeGreaterThan(3);
  for (const [place, text] of shown.entries()) expect(text.startsWith(shown[place - 1] ?? "")).toBe(true);
  expect(streaming).toMatchObject({ isStreaming: false, text: words(chat).at(-1)?.[1] });
});

test("a daemon that is killed and comes back loses nothing, and what was sent meanwhile is sent once", async () => {
  const chat = await started();
  const transcript = new Transcript(client, { sessionId: chat.sessionId ?? "" });
  const states: string[] = [];
  client.onConnectionChange(() => states.push(client.connectionState.state));
  chat.submit("write 5 words");
  await ended(chat);
  const { port } = daemon;
  await daemon.stop("SIGKILL");
  await until(() => client.connectionState.state === "waiting", "nobody says that it is gone");
  chat.submit("write 7 words");
  expect(chat.lastSubmitted).toBe("write 7 words");
  const session = client.session(chat.sessionId ?? "");
  expect(session.outbox.map(item => item.message.content)).toEqual([[{ type: "text", text: "write 7 words" }]]);
  await daemon.start(port);
  await ended(chat, 2);
  expect(session.outbox).toEqual([]);
  await until(() => {
    transcript.flush();
    return transcript.state.page?.entries.filter(entry => entry.message?.role === "user").length === 2;
  }, "the transcript did not go on");
  expect(words(chat).filter(([role]) => role === "user")).toEqual([
    ["user", "write 5 words"],
    ["user", "write 7 words"],
  ]);
  expect(chat.told.filter(type => type === "session_restored").length).toBe(1);
  expect(states).toContain("waiting");
  expect(client.connectionState).toMatchObject({ state: "open", error: null, version: expect.any(String) });
  transcript.destroy();
});

test("a token that is revoked ends the connection and says so", async () => {
  const minted = await client.request<{ token: string }>("POST", "/v1/tokens", { scope: "read,prompt", name: "guest" });
  const guest = daemon.client(minted.token);
  const chat = await joined(guest, await client.newSession(daemon.workspace));
  await client.request("DELETE", `/v1/tokens/${minted.token.split(".")[0]}`);
  await until(() => guest.connectionState.state === "closed", "it is still open");
  expect(guest.connectionState.error?.code).toBe("no_token");
  expect(chat.told).toContain("stream_failed");
});

test("modes, models and commands are known, and a change is told", async () => {
  const sessionId = await client.newSession(daemon.workspace);
  const agentic = new AgenticSession(client, { sessionId });
  await until(() => agentic.sessionInfo);
  expect(agentic.sessionInfo).toMatchObject({
    sessionId,
    status: "idle",
    workspace: daemon.workspace,
    currentModeId: "ask",
    availableCommands: [],
  });
  expect(agentic.sessionInfo?.availableModes.map(mode => mode.id)).toContain("plan");
  await agentic.setMode("plan");
  await until(() => agentic.sessionInfo?.currentModeId === "plan", "the mode did not change");
  await expect(agentic.setMode("none-such")).rejects.toMatchObject({ code: "invalid" });
  client.send("ask me which with A or B", { sessionId });
  await until(() => agentic.sessionInfo?.status === "paused", "a question does not pause");
  agentic.destroy();
});

test("a watched daemon says what changes in every session", async () => {
  const frames: WatchFrame[] = [];
  const leave = client.watch(frame => frames.push(frame));
  await until(() => frames.some(frame => frame.type === "watching"));
  const sessionId = await client.newSession(daemon.workspace, { title: "Watched" });
  await until(() => frames.some(frame => frame.type === "session_changed" && (frame.data.session as { id: string }).id === sessionId));
  await client.request("DELETE", `/v1/sessions/${sessionId}`);
  await until(() => frames.some(frame => frame.type === "session_removed" && frame.data.session_id === sessionId));
  leave();
});

test("a program that took the port of a killed daemon learns no token", async () => {
  const chat = await started();
  const { port, token } = daemon;
  await daemon.stop("SIGKILL");
  let heard = "";
  const squatter = createServer((request, response) => {
    heard += `${request.url}\n${JSON.stringify(request.headers)}\n`;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ ok: true, version: "1", proof: "0".repeat(64) }));
  });
  squatter.on("upgrade", (request, socket) => {
    heard += `upgrade ${JSON.stringify(request.headers)}\n`;
    socket.on("data", piece => {
      heard += String(piece);
    });
  });
  await new Promise<void>(resolve => squatter.listen(port, "127.0.0.1", resolve));
  expect((squatter.address() as AddressInfo).port).toBe(port);
  chat.submit("a secret");
  await until(() => client.connectionState.state === "closed", "it was believed");
  expect(client.connectionState.error?.code).toBe("not_proven");
  expect(heard).toContain("/v1/health");
  expect(heard).not.toContain(token.split(".")[1]);
  expect(heard).not.toContain("a secret");
  squatter.close();
  squatter.closeAllConnections();
});
