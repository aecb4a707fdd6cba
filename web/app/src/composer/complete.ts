import type { SessionRow } from "../shapes";
import { COMMANDS } from "./commands";

/** What is being completed at the caret, if anything: a command at the start, a path after `@` anywhere. Pure. */

export type Wanted = { kind: "command" | "file" | "argument"; query: string; from: number; to: number; command?: string };

export interface Offer {
  id: string;
  label: string;
  detail?: string;
  /** What stands in the text if it is chosen. */
  insert: string;
  /** Chosen with Enter, it is done at once. */
  runs?: boolean;
}

export function wanted(text: string, caret: number): Wanted | null {
  const before = text.slice(0, caret);
  const command = /^\/([a-z_-]*)$/i.exec(before);
  if (command) return { kind: "command", query: command[1] ?? "", from: 0, to: caret };
  const argument = /^\/(model|mode|agent|export) ([^\n]*)$/.exec(before);
  if (argument) {
    const from = (argument[1]?.length ?? 0) + 2;
    return { kind: "argument", command: argument[1] as string, query: argument[2] ?? "", from, to: caret };
  }
  const file = /(?:^|\s)@("[^"\n]*|[^\s"]*)$/.exec(before);
  if (file) {
    const query = (file[1] ?? "").replace(/^"/, "");
    return { kind: "file", query, from: caret - (file[1]?.length ?? 0) - 1, to: caret };
  }
  return null;
}

/** Ours first; a backend's command of the same name is reached with two slashes. */
export function commandOffers(query: string, session: SessionRow): Offer[] {
  const ours = COMMANDS.filter(one => one.name.startsWith(query) && (one.offered?.(session) ?? true)).map(one => ({
    id: `own-${one.name}`,
    label: `/${one.name}`,
    detail: one.says,
    insert: one.takes ? `/${one.name} ` : `/${one.name}`,
    runs: !one.takes,
  }));
  const theirs = (session.available_commands ?? [])
    .filter(one => one.name.startsWith(query))
    .map(one => {
      const slash = COMMANDS.some(own => own.name === one.name) ? "//" : "/";
      return { id: `backend-${one.name}`, label: slash + one.name, detail: one.description ?? "", insert: `${slash}${one.name} ` };
    });
  return [...ours, ...theirs];
}

export function argumentOffers(command: string, query: string, session: SessionRow, agents: { name: string; title: string }[]): Offer[] {
  const choices =
    command === "model"
      ? (session.available_models ?? [])
      : command === "mode"
        ? (session.available_modes ?? [])
        : command === "agent"
          ? agents.map(one => ({ id: one.name, name: one.title }))
          : ["html", "json"].map(id => ({ id, name: id }));
  const asked = query.toLowerCase();
  return choices
    .filter(one => one.id.toLowerCase().includes(asked) || one.name.toLowerCase().includes(asked))
    .map(one => ({ id: one.id, label: one.id, detail: one.name === one.id ? "" : one.name, insert: `/${command} ${one.id}`, runs: true }));
}

/** A path as it stands in a text. */
export function mention(path: string): string {
  return /\s/.test(path) ? `@"${path}" ` : `@${path} `;
}
