/**
 * What was sent and is not accepted yet. Each message has an id of its own, so however often it is tried it counts once. It waits here, in
 * view, while nobody answers, also through a reload; it goes out in order.
 */

import type { Part } from "../shapes";
import { type Daemon, Offline, Refusal } from "./daemon";

export interface Sending {
  id: string;
  sessionId: string;
  parts: Part[];
  delivery?: string;
  draftRev?: number;
  /** Why the daemon would not take it. It goes back to the composer from here. */
  refused?: string;
}

const KEY = "palaver:outbox";

export class Outbox {
  private items: readonly Sending[] = read();
  private readonly listeners = new Set<() => void>();
  private running = false;

  constructor(private readonly daemon: Daemon) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): readonly Sending[] => this.items;

  /** Resolves with nothing: what becomes of it is seen in the transcript, or here. */
  add(message: Omit<Sending, "id">): string {
    const id = `web-${crypto.randomUUID()}`;
    this.become([...this.items, { ...message, id }]);
    void this.flush();
    return id;
  }

  drop(id: string): void {
    this.become(this.items.filter(item => item.id !== id));
  }

  /** Tries what waits, in order; called again when the connection is back. */
  async flush(): Promise<void> {
    if (this.running) return;
    this.running = true;
    try {
      for (let next = this.next(); next; next = this.next()) await this.send(next);
    } catch (error) {
      if (!(error instanceof Offline)) throw error;
    } finally {
      this.running = false;
    }
  }

  private next(): Sending | undefined {
    const stuck = new Set(this.items.filter(item => item.refused).map(item => item.sessionId));
    return this.items.find(item => !stuck.has(item.sessionId));
  }

  private async send({ id, sessionId, parts, delivery, draftRev }: Sending): Promise<void> {
    const body = {
      role: "user",
      parts,
      client_message_id: id,
      ...(delivery ? { delivery } : {}),
      ...(draftRev === undefined ? {} : { draft_rev: draftRev }),
    };
    try {
      await this.daemon.ask("POST", `/v1/sessions/${sessionId}/messages`, body);
      this.drop(id);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.become(this.items.map(item => (item.id === id ? { ...item, refused: error.detail } : item)));
    }
  }

  private become(items: readonly Sending[]): void {
    this.items = items;
    localStorage.setItem(KEY, JSON.stringify(items));
    for (const listener of this.listeners) listener();
  }
}

function read(): Sending[] {
  return JSON.parse(localStorage.getItem(KEY) ?? "[]") as Sending[];
}
