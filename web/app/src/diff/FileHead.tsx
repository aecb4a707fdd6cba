import { visible } from "@palaver/client";
import { Bars } from "./Bars";
import { Counts } from "./Counts";

/** A changed file's line: its path, how much, and how much in five squares. */
export function FileHead({ path, added, removed }: { path: string; added: number; removed: number }) {
  return (
    <div className="file-head">
      <span className="path">{visible(path)}</span>
      <span className="nums tnum">
        <Counts added={added} removed={removed} />
        <Bars added={added} removed={removed} />
      </span>
    </div>
  );
}
