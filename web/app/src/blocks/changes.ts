import type { Here } from "../app/here";

export interface Change {
  path: string;
  change: string;
  diff: string;
  stale: boolean;
}

const asked = new Map<string, Promise<Change[]>>();

/** A turn's diffs, asked for once for all its files that are opened at a time. */
export function changesOf(here: Here, turnId: string): Promise<Change[]> {
  const key = `${here.sessionId}/${turnId}`;
  let known = asked.get(key);
  if (!known) {
    known = here.daemon
      .ask<{ files: Change[] }>("GET", `/v1/sessions/${here.sessionId}/turns/${turnId}/changes`)
      .then(answer => answer.files);
    asked.set(key, known);
    const forget = () => setTimeout(() => asked.delete(key), 1000);
    known.then(forget, forget);
  }
  return known;
}
