import { visible } from "@palaver/client";
import type { DiffLine } from "./parse";

const CLASS = { add: "a", del: "d", hunk: "h", same: undefined } as const;
const MARK = { add: "+", del: "−", hunk: " ", same: " " } as const;

/** One file's change. `whole` wraps long lines: what somebody decides upon is never out of sight. */
export function Diff({ path, lines, whole = false }: { path: string; lines: DiffLine[]; whole?: boolean }) {
  return (
    <div className={`diff${whole ? " whole" : ""}`} role="region" aria-label={`Diff of ${path}`} tabIndex={0}>
      {lines.map((line, place) => (
        // Lines of a diff have nothing but their place.
        <div key={place} className={CLASS[line.kind]}>
          <span>{line.number}</span>
          <span>{MARK[line.kind]}</span>
          <span>{visible(line.text, { prose: !whole })}</span>
        </div>
      ))}
    </div>
  );
}
