/** A transcript on a client that answers when the test says so: pages that are older or newer than what is shown. */

import { expect, test } from "vitest";
import { type Envelope, type Follower, type Page, Transcript, type TranscriptClient } from "../src/index.js";
import { until } from "./daemon.js";

const OPEN = { approvals: [], questions: [], parts: [] };
const entry = (id: string) => ({
  message: { id, role: "user" as const, parts: [], created_at: "", author: { kind: "user" as const } },
  blocks: [{ kind: "text" as const, part: { type: "text" as const, id: `p${id}`, text: id } }],
});
const page = (seq: number, ids: string[], earlier: string | null = null): Page => ({
  as_of_seq: seq,
  entries: ids.map(entry),
  open: OPEN,
  earlier,
  later: null,
});
const notice = (seq: number): Envelope => ({
  type: "notice",
  session_id: "s1",
  seq,
  ts: "",
  turn_id: null,
  data: { level: "info", code: "x", text: `${seq}` },
});

class Slow implements TranscriptClient {
  follower: Follower | undefined;
  following = 0;
  readonly asked: Array<{ query: unknown; answer: (page: Page) => void }> = [];

  follow(_: string, follower: Follower): () => void {
    this.follower = follower;
    this.following += 1;
    return () => {
      this.following -= 1;
    };
  }

  request<T>(_: string, __: string, ___?: unknown, query?: unknown): Promise<T> {
    return new Promise(resolve => this.asked.push({ query, answer: shown => resolve(shown as T) }));
  }

  async answer(shown: Page): Promise<void> {
    const { answer } = await until(() => this.asked.shift(), "nothing was asked");
    answer(shown);
  }
}

async function loaded(client: Slow): Promise<Transcript> {
  const transcript = new Transcript(client, { sessionId: "s1" });
  await client.answer(page(5, ["m2"], "before m2"));
  await until(() => transcript.state.page);
  return transcript;
}

const ids = (transcript: Transcript) => transcript.state.page?.entries.map(one => one.message?.id ?? null);

test("an older page that is as new as what is shown stands in front of it", async () => {
  const client = new Slow();
  const transcript = await loaded(client);
  const loading = transcript.loadEarlier();
  await client.answer(page(5, ["m1"]));
  expect(await loading).toBe(true);
  expect(ids(transcript)).toEqual(["m1", "m2"]);
  expect(await transcript.loadEarlier()).toBe(false);
});

test("an older page that is newer than what is shown waits until that is as new", async () => {
  const client = new Slow();
  const transcript = await loaded(client);
  const loading = transcript.loadEarlier();
  await client.answer(page(7, ["m1"]));
  client.follower?.take(notice(6));
  transcript.flush();
  expect(ids(transcript)).toEqual(["m2", null]);
  client.follower?.take(notice(7));
  await loading;
  expect(ids(transcript)).toEqual(["m1", "m2", null, null]);
});

test("an older page that is older than what is shown is asked for again", async () => {
  const client = new Slow();
  const transcript = await loaded(client);
  const loading = transcript.loadEarlier();
  client.follower?.take(notice(6));
  await client.answer(page(5, ["stale"]));
  await client.answer(page(6, ["m1"]));
  expect(await loading).toBe(true);
  expect(ids(transcript)).toEqual(["m1", "m2", null]);
});

test("a log that was replaced is loaded again, and what was on its way of the old one comes to nobody", async () => {
  const client = new Slow();
  const transcript = await loaded(client);
  const loading = transcript.loadEarlier();
  client.follower?.begin();
  await client.answer(page(5, ["old"]));
  expect(await loading).toBe(false);
  await client.answer(page(2, ["new"]));
  await until(() => ids(transcript)?.[0] === "new");
  expect(client.follower?.after).toBe(2);
  expect(client.following).toBe(1);
});

test("what is destroyed while its page is on its way reads nothing", async () => {
  const client = new Slow();
  const transcript = new Transcript(client, { sessionId: "s1" });
  transcript.destroy();
  await client.answer(page(5, ["m1"]));
  await Promise.resolve();
  expect(client.following).toBe(0);
  expect(transcript.state.page).toBeNull();
});

test("many events tell listeners once a frame, and flush tells them at once", async () => {
  const client = new Slow();
  const transcript = await loaded(client);
  let told = 0;
  transcript.onStateChange(() => {
    told += 1;
  });
  for (let seq = 6; seq < 100; seq += 1) client.follower?.take(notice(seq));
  expect(told).toBe(0);
  transcript.flush();
  expect(told).toBe(1);
  expect(transcript.state.page?.as_of_seq).toBe(99);
  client.follower?.take(notice(100));
  await until(() => told === 2);
  expect(transcript.state.page?.as_of_seq).toBe(100);
});
