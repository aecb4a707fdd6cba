import { visible } from "@palaver/client";
import type { Block } from "../shapes";
import { between, duration } from "../text/format";
import { Fold } from "../ui/Fold";
import { Interrupted } from "./Interrupted";
import { beyond, type Tail } from "./tail";

/** What the model thought before it spoke: a line, with all of it behind. */
export function ThinkingBlock({ block, tail, live }: { block: Block; tail: Tail; live: boolean }) {
  const text = (block.part?.text ?? "") + beyond(tail, block.part?.id);
  const length = block.started_at && block.ended_at ? between(block.started_at, block.ended_at) : null;
  return (
    <>
      <Fold
        id={block.part?.id ?? ""}
        className="think"
        open={live}
        chevronFirst
        summary={<span>{live ? "Thinking" : thought(length)}</span>}
      >
        <div>{visible(text, { prose: true })}</div>
      </Fold>
      {block.interrupted ? <Interrupted /> : null}
    </>
  );
}

function thought(ms: number | null): string {
  return ms === null || ms < 1000 ? "Thought" : `Thought for ${duration(ms)}`;
}
