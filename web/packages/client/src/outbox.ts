/** Commands on their way: those of one session go one after the other, and wait while the daemon cannot be reached. */

import { asError, type PalaverError } from "./errors.js";
import type { Socket } from "./socket.js";

export type Work<T> = () => Promise<T>;
export type Done<T> = (answer: T | undefined, error: PalaverError | undefined) => void;

export class Outbox {
  readonly #socket: Socket;
  readonly #lines = new Map<string, Promise<void>>();
  readonly #outstanding = new Set<Promise<void>>();

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Do it after those of the same key that came before; `key` null waits for nobody. `done` is called exactly once. */
  handOver<T>(key: string | null, work: Work<T>, done: Done<T>): void {
    const before = key === null ? undefined : this.#lines.get(key);
    const doing = (before ?? Promise.resolve()).then(() => this.#do(work, done));
    this.#outstanding.add(doing);
    if (key !== null) this.#lines.set(key, doing);
    void doing.finally(() => {
      this.#outstanding.delete(doing);
      if (key !== null && this.#lines.get(key) === doing) this.#lines.delete(key);
    });
  }

  /** Returns when all that was handed over has its answer. */
  async drained(): Promise<void> {
    while (this.#outstanding.size > 0) await Promise.all(this.#outstanding);
  }

  async #do<T>(work: Work<T>, done: Done<T>): Promise<void> {
    try {
      done(await this.#patiently(work), undefined);
    } catch (thrown) {
      done(undefined, asError(thrown));
    }
  }

  /** What is sent twice because an answer was lost carries an id of its own, so that it counts once. */
  async #patiently<T>(work: Work<T>): Promise<T> {
    for (;;) {
      try {
        return await work();
      } catch (thrown) {
        if (asError(thrown).code !== "unreachable") throw thrown;
        await this.#socket.reachable();
      }
    }
  }
}
