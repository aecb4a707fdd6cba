/**
 * One session on the socket, read by several: each with a cursor of its own, all of them by one subscription.
 *
 * The subscription begins at the cursor that is furthest behind, and begins again when somebody joins; whoever has an event already does
 * not get it again. Frames of an earlier subscription that are still on their way are known by the `hello` that has not come.
 */

import { type PalaverError, Refused } from "./errors.js";
import { callSafely } from "./store.js";

/** What the daemon says on a session's stream: logged events with a `seq`, the tail and control frames without. */
export interface Envelope {
  readonly type: string;
  readonly session_id: string;
  readonly seq?: number;
  readonly ts: string;
  readonly turn_id?: string | null;
  readonly data: Record<string, unknown>;
}

export interface Follower {
  /** The number of the last event that it has. The feed moves it. */
  after: number;
  take(envelope: Envelope): void;
  /** What was taken so far no longer holds; all of it comes again from `after`, which is 0 now unless this sets it. */
  begin(): void;
  /** Nothing more comes. */
  fail(error: PalaverError): void;
}

/** The log that a cursor was made for is not there any more: everything is read again. */
const BEGIN_ANEW = new Set(["log_replaced", "cursor_ahead", "cursor_gone"]);

export class Feed {
  readonly followers = new Set<Follower>();
  #hellos = 0;
  #epoch: unknown;
  #stale = true;

  constructor(
    readonly sessionId: string,
    readonly send: (frame: object) => void,
  ) {}

  /** Somebody joined or the log was replaced: the next `sync` subscribes again. */
  renew(): void {
    this.#stale = true;
  }

  /** The socket is a new one: what was asked for on the old one never comes. */
  reset(): void {
    this.#hellos = 0;
    this.#stale = true;
  }

  /** Subscribe again where that is needed. */
  sync(): void {
    if (!this.#stale || this.followers.size === 0) return;
    this.#stale = false;
    this.#hellos += 1;
    const after = Math.min(...[...this.followers].map(follower => follower.after));
    this.send({ op: "subscribe", session_id: this.sessionId, after, tail: true });
  }

  take(envelope: Envelope): void {
    if (envelope.type === "hello" && this.#hellos > 0) this.#hellos -= 1;
    if (this.#hellos > 0) return;
    if (envelope.type === "hello" && this.#isReplaced(envelope.data.epoch)) return this.#beginAnew();
    if (envelope.type === "deleted") {
      return this.#fail(new Refused("deleted", "The session was deleted. What it showed is all that there is."));
    }
    for (const follower of [...this.followers]) this.#give(follower, envelope);
  }

  /** The daemon refused the subscription. */
  refuse(error: PalaverError): void {
    if (this.#hellos > 0) this.#hellos -= 1;
    if (BEGIN_ANEW.has(error.code)) this.#beginAnew();
    else this.#fail(error);
  }

  #give(follower: Follower, envelope: Envelope): void {
    const { seq } = envelope;
    if (!this.followers.has(follower)) return;
    if (seq === undefined) return callSafely(() => follower.take(envelope));
    if (seq !== follower.after + 1) return;
    follower.after = seq;
    callSafely(() => follower.take(envelope));
  }

  #isReplaced(epoch: unknown): boolean {
    const known = this.#epoch;
    this.#epoch = epoch;
    return known !== undefined && known !== epoch;
  }

  #beginAnew(): void {
    for (const follower of [...this.followers]) {
      follower.after = 0;
      callSafely(() => follower.begin());
    }
    this.#stale = true;
    this.sync();
  }

  #fail(error: PalaverError): void {
    const followers = [...this.followers];
    this.followers.clear();
    for (const follower of followers) callSafely(() => follower.fail(error));
  }
}
