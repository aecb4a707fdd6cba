/** The daemon's queue as one client sees it: what is there, and what is on its way there or away. */

import type { DurableQueue, Message, QueueItem, Unsubscribe } from "./chat-types.js";
import { codeOf, type PalaverError } from "./errors.js";
import type { Done, Work } from "./outbox.js";
import { Listeners } from "./store.js";
import { messageOf } from "./timeline.js";
import type * as wire from "./wire.gen.js";

/** A message on its way. */
export interface Sent {
  readonly clientMessageId: string;
  /** Where the daemon put it, once it answered; null if it waits nowhere. */
  readonly itemId: string | null;
}

/** What the queue needs of its session. Commands are done in the order in which they are given. */
export interface Poster {
  readonly path: string;
  post(message: Message, options: { delivery: "queue" }): Sent;
  command<T>(work: Work<T>, done: Done<T>): void;
  request(method: string, path: string, body?: unknown): Promise<unknown>;
  refused(error: PalaverError): void;
}

interface Adding {
  readonly message: Message;
  readonly sent: Sent;
  removed: boolean;
}

/** What is added shows at once and goes again if it is refused; what is removed is gone at once. */
export class MirroredQueue implements DurableQueue {
  readonly #poster: Poster;
  #items: readonly wire.QueueEntry[] = [];
  /** Of the whole log, as the timeline has them too. */
  readonly #messages = new Map<string, wire.Message>();
  readonly #adding = new Map<string, Adding>();
  readonly #removing = new Set<string>();
  readonly #changes = new Listeners<[]>();
  paused = false;
  reason: string | null = null;

  constructor(poster: Poster) {
    this.#poster = poster;
  }

  get items(): readonly QueueItem[] {
    const there = this.#items.filter(item => !this.#removing.has(item.id)).flatMap(item => this.#shown(item));
    const coming = [...this.#adding.values()].filter(adding => !adding.removed);
    return [...there, ...coming.map(({ message, sent }) => ({ id: null, message, paused: false, clientMessageId: sent.clientMessageId }))];
  }

  onChange(listener: () => void): Unsubscribe {
    return this.#changes.add(listener);
  }

  // --- what a person does ------------------------------------------------------------------------------------------------------

  add(message: Message): Sent {
    const sent = this.#poster.post(message, { delivery: "queue" });
    this.#adding.set(sent.clientMessageId, { message, sent, removed: false });
    this.changed();
    return sent;
  }

  /** One that is gone or running already is no error. */
  remove(item: QueueItem): void {
    this.#hide(item, true);
    this.#command("DELETE", item, "", () => this.#hide(item, false));
  }

  clear(): void {
    for (const item of this.items) this.remove(item);
  }

  resume(): void {
    const resume = () => this.#poster.request("POST", `${this.#poster.path}/queue/resume`, {});
    this.#poster.command(resume, (_, error) => this.#refusedUnlessGone(error));
  }

  /** To the turn that runs, or to a turn of its own at once. */
  promote(item: QueueItem): void {
    this.#command("POST", item, "/promote", undefined);
  }

  // --- what happens ------------------------------------------------------------------------------------------------------------

  /** Fold the next logged event; whether it changed the queue. */
  take(event: wire.Logged): boolean {
    if (event.type === "message_added") {
      const { message } = event.data; // a steer that is not read goes back to the queue
      this.#messages.set(message.id, message);
      return this.#arrived(message);
    }
    if (event.type !== "queue_changed") return false;
    const { items, paused, reason } = event.data;
    this.#items = items;
    this.paused = paused;
    this.reason = reason ?? null;
    for (const { message } of items) {
      if (!message) continue;
      this.#messages.set(message.id, message);
      this.#arrived(message);
    }
    for (const id of this.#removing) if (!items.some(item => item.id === id)) this.#removing.delete(id);
    return true;
  }

  /** What was on its way will not come, or did not stay. Tells nobody: `changed` does. */
  withdraw(clientMessageId: string): void {
    this.#adding.delete(clientMessageId);
  }

  changed(): void {
    this.#changes.call();
  }

  /** The log comes again from its beginning. What is on its way stays. */
  forget(): void {
    this.#items = [];
    this.#messages.clear();
    this.#removing.clear();
    this.paused = false;
    this.reason = null;
  }

  #arrived(message: wire.Message): boolean {
    return this.#adding.delete(message.client_message_id ?? "");
  }

  #shown(item: wire.QueueEntry): QueueItem[] {
    const message = this.#messages.get(item.message_id);
    return message === undefined ? [] : [{ id: item.id, message: messageOf(message), paused: item.paused }];
  }

  #hide(item: QueueItem, hidden: boolean): void {
    const adding = this.#adding.get(item.clientMessageId ?? "");
    if (adding !== undefined) adding.removed = hidden;
    else if (item.id !== null && hidden) this.#removing.add(item.id);
    else if (item.id !== null) this.#removing.delete(item.id);
    this.changed();
  }

  #command(method: string, item: QueueItem, what: string, undo: (() => void) | undefined): void {
    const adding = this.#adding.get(item.clientMessageId ?? "");
    const work = async (): Promise<void> => {
      // one that was on its way has its id by now: commands are done in order
      const id = adding === undefined ? item.id : adding.sent.itemId;
      if (id === null) return;
      await this.#poster.request(
        method,
        `${this.#poster.path}/queue/${encodeURIComponent(id)}${what}`,
        method === "DELETE" ? undefined : {},
      );
    };
    this.#poster.command(work, (_, error) => {
      if (error !== undefined && codeOf(error) !== "item_gone") undo?.();
      this.#refusedUnlessGone(error);
    });
  }

  #refusedUnlessGone(error: PalaverError | undefined): void {
    if (error !== undefined && error.code !== "item_gone") this.#poster.refused(error);
  }
}
