/** What is known of a session beside its messages: the daemon's own object, and its queue, kept true by every event. */

import type { Envelope } from "./feed.js";
import type * as wire from "./wire.gen.js";

export interface SessionQueue {
  readonly items: readonly wire.QueueItem[];
  readonly paused: boolean;
  readonly reason: string | null;
}

export interface SessionFacts {
  /** As `GET /v1/sessions/{id}` answers; its `queue` and `waiting` are as old as the connection, `queue` beside it is not. */
  readonly session: wire.Session | null;
  readonly queue: SessionQueue;
}

export const NO_FACTS: SessionFacts = { session: null, queue: { items: [], paused: false, reason: null } };

/** A message by its id, where it is known: what a queue's event names and does not repeat. */
export type Find = (messageId: string) => wire.Message | undefined;

/** The facts after this envelope: the same object where it says nothing of them. */
export function factsAfter(facts: SessionFacts, envelope: Envelope, find: Find): SessionFacts {
  const data = envelope.data as never;
  if (envelope.type === "hello") return told((data as { session: wire.Session | null }).session, facts);
  if (facts.session === null || envelope.seq === undefined || envelope.seq <= facts.session.head_seq) return facts;
  const session = { ...facts.session, ...changeOf(envelope), head_seq: envelope.seq, updated_at: envelope.ts };
  return { session, queue: envelope.type === "queue_changed" ? queueOf(data as wire.QueueChanged, facts.queue, find) : facts.queue };
}

function told(session: wire.Session | null, before: SessionFacts): SessionFacts {
  if (session === null) return before;
  const { items = [], paused, reason } = session.queue;
  return { session, queue: { items, paused, reason: reason ?? null } };
}

function changeOf(envelope: Envelope): Partial<wire.Session> {
  switch (envelope.type) {
    case "session_updated":
      return envelope.data.session as Partial<wire.Session>;
    case "session_completed":
      return { status: "completed" };
    case "session_failed":
      return { status: "failed" };
    case "session_canceled":
      return { status: "canceled" };
    case "turn_started":
      return { status: "active", last_turn_id: envelope.turn_id ?? null };
    default:
      return {};
  }
}

function queueOf(changed: wire.QueueChanged, before: SessionQueue, find: Find): SessionQueue {
  const known = (id: string) => before.items.find(item => item.message_id === id)?.message ?? find(id) ?? null;
  const items = changed.items.map(item => ({ ...item, message: item.message ?? known(item.message_id) }));
  return { items, paused: changed.paused, reason: changed.reason ?? null };
}
