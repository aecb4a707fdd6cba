/** Texts are counted in code points in every language; JavaScript counts in UTF-16 units. */

/** How many code points `text` has. */
export function codePoints(text: string): number {
  let count = 0;
  for (let unit = 0; unit < text.length; unit += 1) if (!isLow(text.charCodeAt(unit))) count += 1;
  return count;
}

/** What is left of `text` after its first `count` code points. */
export function afterCodePoints(text: string, count: number): string {
  let unit = 0;
  for (let left = count; left > 0 && unit < text.length; left -= 1) {
    unit += 1;
    while (isLow(text.charCodeAt(unit))) unit += 1;
  }
  return text.slice(unit);
}

/** The last `count` code points of `text`. */
export function lastCodePoints(text: string, count: number): string {
  let unit = text.length;
  for (let left = count; left > 0 && unit > 0; left -= 1) {
    unit -= 1;
    while (unit > 0 && isLow(text.charCodeAt(unit))) unit -= 1;
  }
  return text.slice(unit);
}

/** The second half of a pair; the daemon never cuts one. */
function isLow(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}
