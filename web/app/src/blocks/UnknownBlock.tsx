import { visible } from "@palaver/client";
import type { Block } from "../shapes";
import { Fold } from "../ui/Fold";

/** A kind that a newer daemon knows: shown as what it holds, so that nothing is missing. */
export function UnknownBlock({ block }: { block: Block }) {
  return (
    <Fold id={block.id ?? block.kind} className="tool" chevronFirst summary={<span className="verb">{visible(block.kind)}</span>}>
      <pre tabIndex={0}>{visible(JSON.stringify(block.data ?? block, null, 2), { prose: true })}</pre>
    </Fold>
  );
}
