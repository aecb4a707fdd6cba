/** One message on its way. */

import type { PalaverError } from "./errors.js";
import type { Accepted } from "./wire.gen.js";

export interface PostOptions {
  /** What becomes of it while a turn runs: it joins (`steer`, the default), waits, or takes its place. */
  delivery?: "auto" | "queue" | "steer" | "interrupt";
  /** Of a message that was sent before and may have arrived: it counts once. */
  clientMessageId?: string;
  /** The draft that it was: cleared by the same command. */
  draftRev?: number;
}

export class Handle {
  readonly clientMessageId: string;
  /** Where it waits, once the daemon answered; null if it waits nowhere. */
  itemId: string | null = null;
  /** Somebody asked for the result, so a refusal is heard. */
  isHeard = false;
  readonly #result: Promise<Accepted>;
  #resolve!: (reply: Accepted) => void;
  #reject!: (error: PalaverError) => void;

  constructor(clientMessageId: string = crypto.randomUUID()) {
    this.clientMessageId = clientMessageId;
    this.#result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#result.catch(() => {}); // it may be left alone: a refusal is also told as `message_refused`
  }

  /** The daemon's answer, or why there is none. */
  get result(): Promise<Accepted> {
    this.isHeard = true;
    return this.#result;
  }

  settle(reply: Accepted | undefined, error: PalaverError | undefined): void {
    if (error !== undefined) return this.#reject(error);
    if (reply === undefined) return;
    if (reply.delivered === "queued") this.itemId = reply.item_id ?? null;
    this.#resolve(reply);
  }
}
