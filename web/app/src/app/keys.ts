/** Keys by what they do. A letter alone never answers anything; on a Mac, where Option types characters, Ctrl+Shift stands for Alt. */

export const IS_MAC = /Mac|iPhone|iPad/.test(navigator.platform);

export function keyHint(letter: string): string {
  return IS_MAC ? `⌃⇧${letter}` : `Alt ${letter}`;
}

export const PALETTE_HINT = IS_MAC ? "⌘ K" : "Ctrl K";

/** The letter that was pressed with what stands for Alt here, upper case; "" where something else was. */
export function chord(event: KeyboardEvent): string {
  const held = IS_MAC
    ? event.ctrlKey && event.shiftKey && !event.altKey && !event.metaKey
    : event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (!held) return "";
  return event.code.startsWith("Key") ? event.code.slice(3) : event.key.length > 1 ? event.key : "";
}

/** Ctrl, or ⌘ on a Mac, and nothing else. */
export function command(event: KeyboardEvent): boolean {
  return (IS_MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey) && !event.altKey;
}
