/** A session of a real daemon, seen from TypeScript: live, reloaded, cut off and taken up again. */

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Client, Fold, fromPage, type Page, Refused, show, Transcript, toPage, type wire } from "../src/index.js";
import { Daemon, until } from "./daemon.js";

let daemon: Daemon;
let client: Client;

beforeAll(async () => {
  daemon = await new Daemon().start();
  client = daemon.client();
});

afterAll(() => daemon.end());

async function loaded(sessionId: string, limit?: number): Promise<Transcript> {
  const transcript = new Transcript(client, { sessionId, limit });
  await until(() => transcript.state.session, "the page did not come");
  return transcript;
}

async function ended(transcript: Transcript, turns = 1): Promise<void> {
  const ends = () => {
    transcript.flush();
    return transcript.state.page?.entries.flatMap(entry => entry.blocks).filter(block => block.kind === "turn_end").length ?? 0;
  };
  await until(() => ends() >= turns && !transcript.state.page?.open.turn, `no end of turn ${turns}`);
}

async function asked(sessionId: string): Promise<Page> {
  return client.request<Page>("GET", `/v1/sessions/${sessionId}/transcript`, undefined, { limit: 100 });
}

describe("a transcript", () => {
  test("shows live what the daemon answers on a reload", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const transcript = await loaded(sessionId);
    client.send('write the file a.txt with "hello" then read the file a.txt then write 60 words', { sessionId, delivery: "steer" });
    const ask = await until(() => {
      transcript.flush();
      return transcript.state.page?.open.approvals[0];
    }, "no approval");
    await client.approve(ask.approval_id);
    await ended(transcript);
    expect(transcript.state.page).toEqual(await asked(sessionId));
    expect(transcript.state.provisional).toEqual({});
    expect(transcript.state.session?.status).toBe("active");
    transcript.destroy();
  });

  test("shows text before the log has it, and nothing twice", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const transcript = await loaded(sessionId);
    const shown: string[] = [];
    transcript.onStateChange(() => {
      for (const entry of transcript.state.page?.entries ?? []) {
        if (entry.message?.role !== "assistant") continue;
        const texts = entry.blocks.flatMap(block =>
          block.kind === "text" ? [block.part.text + (transcript.state.provisional[`${entry.message?.id}/${block.part.id}`] ?? "")] : [],
        );
        const beyond = (transcript.state.tails[entry.message.id] ?? []).filter(
          tail => !entry.blocks.some(block => "part" in block && block.part.id === tail.part),
        );
        shown.push([...texts, ...beyond.map(tail => tail.text)].join(""));
      }
    });
    client.send("write 120 words", { sessionId });
    await ended(transcript);
    const last = shown.at(-1) ?? "";
    expect(last.length).toBeGreaterThan(500);
    for (const [place, text] of shown.entries()) {
      expect(last.startsWith(text), "what was shown is a beginning of what came").toBe(true);
      expect(text.length).toBeGreaterThanOrEqual((shown[place - 1] ?? "").length);
    }
    transcript.destroy();
  });

  test("goes on from any page of the daemon, as the daemon does", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const transcript = await loaded(sessionId);
    client.send("think about cats then search for hello", { sessionId });
    await ended(transcript);
    const { events } = await client.request<{ events: wire.Logged[] }>("GET", `/v1/sessions/${sessionId}/events`, undefined, {
      format: "json",
      limit: 1000,
    });
    const end = await asked(sessionId);
    for (let seq = 0; seq <= events.length; seq += 1) {
      const fold = fromPage(JSON.parse(JSON.stringify(toPage(events.slice(0, seq).reduce(show, new Fold())))));
      expect(toPage(events.slice(seq).reduce(show, fold))).toEqual(end);
    }
    transcript.destroy();
  });

  test("loads what came earlier in front of what is there", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const whole = await loaded(sessionId);
    for (let turn = 1; turn <= 6; turn += 1) {
      client.send(`write ${turn} words`, { sessionId });
      await ended(whole, turn);
    }
    const window = await loaded(sessionId, 4);
    expect(window.state.page?.entries.length).toBe(4);
    while (await window.loadEarlier());
    expect(window.state.page?.entries).toEqual(whole.state.page?.entries);
    expect(window.state.page?.earlier).toBeNull();
    client.send("write 9 words", { sessionId });
    await ended(window, 7);
    await ended(whole, 7);
    expect(window.state.page?.entries).toEqual(whole.state.page?.entries);
    whole.destroy();
    window.destroy();
  });

  test("jumps to a message and comes back to the end by loading later ones", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const whole = await loaded(sessionId);
    for (let turn = 1; turn <= 8; turn += 1) {
      client.send(`write ${turn} words`, { sessionId });
      await ended(whole, turn);
    }
    const first = whole.state.page?.entries[0]?.message?.id ?? "";
    const window = await loaded(sessionId, 4);
    await window.jump(first);
    expect(window.state.isLatest).toBe(false);
    expect(window.state.page?.entries.some(entry => entry.message?.id === first)).toBe(true);
    while (!window.state.isLatest) expect(await window.loadLater()).toBe(true);
    client.send("write 9 words", { sessionId });
    await ended(whole, 9);
    await until(() => {
      window.flush();
      return window.state.page?.as_of_seq === whole.state.page?.as_of_seq;
    }, "the window did not go on");
    expect(window.state.page?.entries).toEqual(whole.state.page?.entries.slice(-(window.state.page?.entries.length ?? 0)));
    whole.destroy();
    window.destroy();
  });

  test("says why there is none", async () => {
    const transcript = new Transcript(client, { sessionId: "sess_none" });
    await until(() => transcript.state.error, "no error");
    expect(transcript.state.error?.code).toBe("not_found");
    transcript.destroy();
  });

  test("says when its session is deleted", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const transcript = await loaded(sessionId);
    await client.request("DELETE", `/v1/sessions/${sessionId}`);
    await until(() => transcript.state.error, "no error");
    expect(transcript.state.error?.code).toBe("deleted");
    transcript.destroy();
  });

  test("keeps the queue as the daemon has it", async () => {
    const sessionId = await client.newSession(daemon.workspace);
    const transcript = await loaded(sessionId);
    client.send("wait 30 seconds", { sessionId });
    await until(() => {
      transcript.flush();
      return transcript.state.page?.open.turn;
    });
    const path = `/v1/sessions/${sessionId}`;
    await client.request("POST", `${path}/messages`, { role: "user", parts: [{ type: "text", text: "later" }], delivery: "queue" });
    await until(() => {
      transcript.flush();
      return transcript.state.queue.items.length === 1;
    });
    const late = await loaded(sessionId);
    expect(late.state.queue.items.map(item => item.message?.parts[0]?.text)).toEqual(["later"]);
    await client.request("POST", `${path}/cancel`, {});
    await until(() => {
      late.flush();
      return late.state.queue.paused;
    });
    expect(late.state.queue.items[0]?.message?.parts[0]?.text).toBe("later");
    transcript.destroy();
    late.destroy();
  });
});

describe("a client", () => {
  test("sends no token to a program that took the daemon's port", async () => {
    const wrong = daemon.client("tok_none.wrong");
    await expect(wrong.request("GET", "/v1/sessions")).rejects.toThrow(Refused);
    await expect(wrong.request("GET", "/v1/sessions")).rejects.toMatchObject({ code: "not_proven" });
  });
});
