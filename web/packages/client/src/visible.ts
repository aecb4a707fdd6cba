/**
 * What a model or a tool printed, made safe to look at: nothing in it is obeyed and nothing in it hides.
 *
 * The characters that a screen obeys, reorders by or does not show come out by their number, as `⟨U+202E⟩`; a run of more than eight
 * blanks comes out as a count. Line ends and tabs stay. Different texts always come out different. The ranges are those of Python's
 * `views/visible.py`; `golden/visible.json` holds the same table for both.
 */

const OBEYED =
  "\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f" + // control, but for line end and tab
  "\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069" + // bidi
  "\\u2028\\u2029" + // line ends of another kind
  "\\u180b-\\u180f\\u200b\\u2060-\\u2065\\u206a-\\u206f\\ufeff\\ufff0-\\ufffb\\ufffe\\uffff" + // zero-width and format
  "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0" + // letters without ink
  "\\ud800-\\udfff\\ue000-\\uf8ff" + // surrogates, private use
  "\\u{13430}-\\u{1343f}\\u{1bca0}-\\u{1bca3}\\u{1d159}\\u{1d173}-\\u{1d17a}" + // formats of scripts and music
  "\\u{e0000}-\\u{e0fff}\\u{f0000}-\\u{10ffff}" + // tags, variation selectors, private use
  "\\u27e8"; // our own bracket

/** Invisible too, but part of ordinary writing: joiners, emoji variants, soft hyphens, the blanks of other scripts. */
const WRITTEN = "\\u00a0\\u00ad\\u1680\\u2000-\\u200a\\u200c\\u200d\\u202f\\u205f\\u3000\\ufe00-\\ufe0f";

const PROSE = new RegExp(`[${OBEYED}]`, "gu");
const STRICT = new RegExp(`[${OBEYED}${WRITTEN}]|[ \\t]{9,}|\\n{9,}`, "gu");
const SAME = / +|\t+|\n+/g;
const NAMES: Record<string, string> = { " ": "blanks", "\t": "tabs", "\n": "line ends" };

/**
 * `text` as a screen may show it.
 *
 * As it stands it is for whatever somebody decides upon: commands, paths, diffs, inputs, rules. With `prose` it is for answers and output
 * that are merely read: blanks keep their number and ordinary writing its joiners. Prose may be given piece by piece.
 */
export function visible(text: string, { prose = false }: { prose?: boolean } = {}): string {
  return text.replace(prose ? PROSE : STRICT, shown);
}

function shown(run: string): string {
  if (NAMES[run.charAt(0)] !== undefined) return run.replace(SAME, same => `⟨${same.length} ${NAMES[same.charAt(0)]}⟩`);
  return `⟨U+${(run.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
