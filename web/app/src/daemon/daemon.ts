/** What the page asks of its daemon, whoever carries it there. */

export interface Daemon {
  /** Resolves with the answer's body; rejects with a `Refusal`, or with `Offline` where nobody answered. */
  ask<T = unknown>(method: string, path: string, body?: unknown): Promise<T>;
  /** A stored file, fetched with the token. */
  file(path: string): Promise<Blob>;
}

/** The daemon's no, with the code that programs go by and the words that people read. */
export class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly body: Record<string, unknown>,
  ) {
    super(detail);
  }
}

export class Offline extends Error {
  constructor() {
    super("Palaver does not answer. It is tried again by itself.");
  }
}

export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
