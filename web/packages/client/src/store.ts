/** A state that is replaced as a whole, and whoever wants to hear of it: what the primitives have in common. */

import type { Unsubscribe } from "./chat-types.js";

/** Called in the order in which they came. One that throws is reported and harms no other. */
export class Listeners<A extends unknown[]> {
  #listeners = new Map<object, (...args: A) => unknown>();

  add(listener: (...args: A) => unknown): Unsubscribe {
    const key = {};
    this.#listeners.set(key, listener);
    return () => void this.#listeners.delete(key);
  }

  clear(): void {
    this.#listeners.clear();
  }

  /** One that is removed meanwhile is no longer called, one that is added is called from the next time on. */
  call(...args: A): void {
    for (const [key, listener] of [...this.#listeners]) if (this.#listeners.has(key)) callSafely(listener, ...args);
  }
}

/** Call what others wrote: its error is theirs to see, and stops nothing here. */
export function callSafely<A extends unknown[]>(listener: (...args: A) => unknown, ...args: A): void {
  try {
    listener(...args);
  } catch (error) {
    reportError(error);
  }
}

/** To the console, as an uncaught error would; `globalThis.reportError` would end a Node process. */
function reportError(error: unknown): void {
  console.error("A listener threw; the others were called.", error);
}

/** `state` is a snapshot: a new object after each change, and equal to what listeners are told of. */
export abstract class Store<S> {
  protected snapshot!: S;
  protected ends: Unsubscribe[] = [];
  readonly #listeners = new Listeners<[]>();

  get state(): S {
    return this.snapshot;
  }

  /** Have `listener` called after each change, until what this returns is called. */
  onStateChange(listener: () => void): Unsubscribe {
    return this.#listeners.add(listener);
  }

  /** Hear no more, tell no more. A second time does nothing. */
  destroy(): void {
    const ends = this.ends;
    this.ends = [];
    for (const end of ends) end();
    this.#listeners.clear();
  }

  /** The state as it is now. */
  protected abstract takeSnapshot(): S;

  protected changed(): void {
    this.snapshot = this.takeSnapshot();
    this.#listeners.call();
  }
}
