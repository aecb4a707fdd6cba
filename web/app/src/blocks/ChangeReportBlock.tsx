import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { Counts } from "../diff/Counts";
import type { Block, ChangedFile } from "../shapes";
import { plural } from "../text/format";
import { Icon } from "../ui/Icon";
import { ChangedFileRow } from "./ChangedFileRow";

interface Report {
  files: ChangedFile[];
  truncated_count?: number;
  undone?: { by?: string; redo?: boolean } | boolean;
}

/** What a turn changed, file by file; each opens its diff. */
export function ChangeReportBlock({ block }: { block: Block }) {
  const here = useHere();
  const report = block.data as unknown as Report;
  const turnId = (block.id ?? "").replace(/^changes:/, "");
  const undone = isUndone(report);
  const added = report.files.reduce((sum, file) => sum + file.added, 0);
  const removed = report.files.reduce((sum, file) => sum + file.removed, 0);
  return (
    <section className={`cardx changes${undone ? " undone" : ""}`} aria-label="Changes" data-undone={undone ? "true" : undefined}>
      <header>
        <Icon name="diff" />
        <h2>{plural(report.files.length + (report.truncated_count ?? 0), "file")} changed</h2>
        {undone ? <span className="chip">Undone</span> : null}
        <span className="meta tnum">
          <Counts added={added} removed={removed} />
        </span>
        {here.readOnly ? null : (
          <button type="button" className="btn quiet mini" onClick={() => here.show({ kind: "undo", turnId, redo: undone })}>
            <Icon name={undone ? "redo" : "undo"} />
            {undone ? "Redo" : "Undo"}
          </button>
        )}
      </header>
      {report.files.map(file => (
        <ChangedFileRow key={file.path} file={file} turnId={turnId} />
      ))}
      {report.truncated_count ? <p className="pad">and {visible(plural(report.truncated_count, "more file"))}</p> : null}
    </section>
  );
}

function isUndone({ undone }: Report): boolean {
  return typeof undone === "object" ? undone.redo !== true : undone === true;
}
