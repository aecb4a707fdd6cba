import type { Block, Entry } from "../shapes";

/** The names by which rows and blocks keep their place, made of the ids of events. */

export function blockKey(block: Block, place: number): string {
  if (block.kind === "plan" || block.kind === "turn_end") return `${block.kind}:${block.id}`;
  return block.call?.id ?? block.part?.id ?? (block.id ? `${block.kind}:${block.id}` : String(place));
}

export function entryKey(entry: Entry): string {
  if (entry.message) return entry.message.id;
  const first = entry.blocks[0];
  return first ? `${entry.turn_id ?? ""}/${blockKey(first, 0)}` : (entry.turn_id ?? "empty");
}

export const TOOLS = new Set(["tool", "verify", "exchange"]);

function familyOf(block: Block): string | null {
  return TOOLS.has(block.kind) ? "tools" : block.kind === "subagent" ? "subagents" : null;
}

/** Neighbouring calls stand closer together than anything else, and neighbouring sub-agents on one card. */
export function groups(blocks: Block[]): Block[][] {
  const found: Block[][] = [];
  for (const block of blocks) {
    const last = found[found.length - 1];
    if (last?.[0] && familyOf(last[0]) !== null && familyOf(last[0]) === familyOf(block)) last.push(block);
    else found.push([block]);
  }
  return found;
}
