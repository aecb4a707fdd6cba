/** A unified diff, line by line, with the numbers that its hunks give. Pure; a line that fits nothing is shown as it is. */

export interface DiffLine {
  kind: "add" | "del" | "same" | "hunk";
  number: number | null;
  text: string;
}

export interface DiffFile {
  path: string;
  added: number;
  removed: number;
  lines: DiffLine[];
}

const HUNK = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)$/;
const V4A = /^\*\*\* (Add|Update|Delete) File: (.+)$/;

/** Takes a patch of either form: unified, or `*** Begin Patch`. */
export function parseDiff(patch: string): DiffFile[] {
  const files: DiffFile[] = [];
  let file: DiffFile | null = null;
  let before = 0;
  let after = 0;
  const begin = (path: string) => {
    file = { path, added: 0, removed: 0, lines: [] };
    files.push(file);
  };
  const lines = patch.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  for (const [place, line] of lines.entries()) {
    const section = V4A.exec(line);
    const hunk = HUNK.exec(line);
    if (section) {
      begin(section[2] ?? "");
      before = after = 0;
    } else if (line.startsWith("--- ") && lines[place + 1]?.startsWith("+++ ")) {
      begin(nameOf(line.slice(4), lines[place + 1]?.slice(4) ?? ""));
    } else if (isHeading(line, lines[place - 1])) {
    } else if (hunk) {
      before = Number(hunk[1]);
      after = Number(hunk[2]);
      (file ?? begin("")) as unknown;
      push(files, { kind: "hunk", number: null, text: hunk[3] || "⋯" });
    } else if (line.startsWith("@@")) {
      if (files.length === 0) begin("");
      push(files, { kind: "hunk", number: null, text: line.replace(/^@@ ?/, "") || "⋯" });
    } else {
      if (files.length === 0) begin("");
      const mark = line[0];
      if (mark === "+") push(files, { kind: "add", number: after ? after++ : null, text: line.slice(1) });
      else if (mark === "-") push(files, { kind: "del", number: before ? before++ : null, text: line.slice(1) });
      else {
        push(files, { kind: "same", number: after || null, text: mark === " " ? line.slice(1) : line });
        if (before) before++;
        if (after) after++;
      }
    }
  }
  return files;
}

function isHeading(line: string, previous: string | undefined): boolean {
  if (line.startsWith("+++ ") && previous?.startsWith("--- ")) return true;
  return /^(diff --git |index |new file mode |deleted file mode |old mode |new mode |similarity index |rename |\*\*\* (Begin|End) Patch|\*\*\* End of File|\\ No newline)/.test(
    line,
  );
}

function nameOf(before: string, after: string): string {
  const name = after === "/dev/null" ? before : after;
  return name.replace(/^[ab]\//, "").replace(/\t.*$/, "");
}

function push(files: DiffFile[], line: DiffLine): void {
  const file = files[files.length - 1];
  if (!file) return;
  file.lines.push(line);
  if (line.kind === "add") file.added++;
  if (line.kind === "del") file.removed++;
}
