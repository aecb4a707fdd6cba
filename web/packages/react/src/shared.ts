/** One transcript and one set of facts for each session of a client, however many components look at it. */

import { AgenticSession, Transcript, type TranscriptClient } from "@palaver/client";
import type { HookClient } from "./provider.js";

interface Held<T> {
  readonly store: T;
  users: number;
}

/** Made when somebody first needs it; gone when nobody has needed it for a moment, since StrictMode leaves and comes again at once. */
export class Shared<T extends { destroy(): void }> {
  readonly #clients = new WeakMap<object, Map<string, Held<T>>>();
  readonly #make: (client: TranscriptClient, sessionId: string) => T;

  constructor(make: (client: TranscriptClient, sessionId: string) => T) {
    this.#make = make;
  }

  /** What is there already; rendering asks this and makes nothing. */
  peek(client: HookClient, sessionId: string): T | undefined {
    return this.#clients.get(client)?.get(sessionId)?.store;
  }

  hold(client: HookClient, sessionId: string): { store: T; release: () => void } {
    const sessions = this.#clients.get(client) ?? new Map<string, Held<T>>();
    this.#clients.set(client, sessions);
    const held = sessions.get(sessionId) ?? { store: this.#make(readerOf(client), sessionId), users: 0 };
    sessions.set(sessionId, held);
    held.users += 1;
    const release = () => {
      held.users -= 1;
      queueMicrotask(() => {
        if (held.users > 0 || sessions.get(sessionId) !== held) return;
        sessions.delete(sessionId);
        held.store.destroy();
      });
    };
    return { store: held.store, release };
  }
}

export const transcripts = new Shared((client, sessionId) => new Transcript(client, { sessionId }));
export const agenticSessions = new Shared((client, sessionId) => new AgenticSession(client, { sessionId }));

function readerOf(client: HookClient): TranscriptClient {
  const { follow, request } = client;
  if (follow === undefined || request === undefined) {
    throw new Error("This client cannot follow a session. Use one of createClient, or of @palaver/client/testing.");
  }
  return client as TranscriptClient;
}
