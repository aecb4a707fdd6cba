import { useMemo } from "react";
import { Diff } from "./Diff";
import { FileHead } from "./FileHead";
import { parseDiff } from "./parse";

/** A patch of several files, all of it open. */
export function DiffFiles({ patch, whole = false }: { patch: string; whole?: boolean }) {
  const files = useMemo(() => parseDiff(patch), [patch]);
  return files.map((file, place) => (
    <div key={`${file.path} ${place}`} className="file">
      {file.path ? <FileHead path={file.path} added={file.added} removed={file.removed} /> : null}
      <Diff path={file.path || "the change"} lines={file.lines} whole={whole} />
    </div>
  ));
}
