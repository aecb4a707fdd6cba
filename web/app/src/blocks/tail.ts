/** Text in flight beyond what the log confirms: by part of a message, by stream of a call. */
export type Tail = Readonly<Record<string, { kind: string; text: string }>>;

export const NO_TAIL: Tail = {};

export function beyond(tail: Tail, part: string | undefined): string {
  return (part !== undefined && tail[part]?.text) || "";
}
