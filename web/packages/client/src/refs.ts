/** Long strings of an event that stand in files: loaded back into their places before anybody decides on them. */

import type { Connection } from "./connection.js";
import { Failed, problem } from "./errors.js";
import type { Refs } from "./fold/page.js";

/** `data` with every shortened string in full. Throws `Failed("bad_ref")` when a file is not what the event names. */
export async function whole<T extends { refs?: Refs | null }>(connection: Connection, sessionId: string, data: T): Promise<T> {
  let full: unknown = data;
  for (const [pointer, place] of Object.entries(data.refs ?? {})) {
    const response = await connection.fetch(`/v1/sessions/${encodeURIComponent(sessionId)}/${encodePath(place.ref)}`);
    if (!response.ok) throw problem(response.status, await response.json().catch(() => null));
    const content = new Uint8Array(await response.arrayBuffer());
    if ((await sha256(content)) !== place.sha256) {
      throw new Failed("bad_ref", `${place.ref} is not what the event says it is. Look at the session's files.`);
    }
    full = replaced(full, steps(pointer), new TextDecoder().decode(content));
  }
  return full as T;
}

function encodePath(path: string): string {
  return path.split("/").map(encodeURIComponent).join("/");
}

async function sha256(content: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, byte => byte.toString(16).padStart(2, "0")).join("");
}

function steps(pointer: string): string[] {
  const named = pointer.split("/").slice(1);
  return named.map(step => step.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function replaced(value: unknown, [first, ...rest]: readonly string[], text: string): unknown {
  if (first === undefined) return text;
  if (Array.isArray(value)) return value.map((one, place) => (place === Number(first) ? replaced(one, rest, text) : one));
  const fields = value as Record<string, unknown>;
  return { ...fields, [first]: replaced(fields[first], rest, text) };
}
