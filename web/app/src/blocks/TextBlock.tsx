import { visible } from "@palaver/client";
import { Markdown } from "../markdown/Markdown";
import type { Block } from "../shapes";
import { Interrupted } from "./Interrupted";
import { beyond, type Tail } from "./tail";

/** What was said. A person's words stand as they were typed; a model's are Markdown. */
export function TextBlock({ block, tail, live, own }: { block: Block; tail: Tail; live: boolean; own: boolean }) {
  const text = (block.part?.text ?? "") + beyond(tail, block.part?.id);
  if (own) return <div className="say">{visible(text, { prose: true })}</div>;
  return (
    <>
      {text === "" ? null : (
        <div className={live ? "prose live" : "prose"}>
          <Markdown text={text} live={live} />
        </div>
      )}
      {block.interrupted ? <Interrupted /> : null}
    </>
  );
}
