import { visible } from "@palaver/client";
import type { Block } from "../shapes";
import { about } from "../text/format";
import { Icon } from "../ui/Icon";

/** Something that happened around the conversation, in one line. */
export function NoticeBlock({ block }: { block: Block }) {
  const data = block.data ?? {};
  const bad = data.level === "error" || data.level === "warning";
  return (
    <div className={`line notice${bad ? " bad" : ""}`}>
      <Icon name={bad ? "warn" : "circle"} />
      <span>{words(data)}</span>
    </div>
  );
}

function words(data: Record<string, unknown>): string {
  switch (data.type) {
    case "model_fallback":
      return visible(`Went on with ${data.actual}: ${data.preferred} could not be used (${data.reason})`);
    case "context_compacted":
      return visible(
        `Earlier conversation was summed up: ${about(Number(data.tokens_before ?? 0))} → ${about(Number(data.tokens_after ?? 0))} tokens. All of it is still here.`,
      );
    default:
      return visible(String(data.text ?? data.code ?? ""), { prose: true });
  }
}
