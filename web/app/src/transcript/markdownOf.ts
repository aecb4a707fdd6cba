import { argument, verb } from "../blocks/toolWords";
import type { Block, Entry } from "../shapes";

/** Entries as Markdown, as somebody would paste them elsewhere. */
export function markdownOf(entries: readonly Entry[]): string {
  return entries
    .map(entry =>
      entry.blocks
        .map(block => one(block, entry))
        .filter(Boolean)
        .join("\n\n"),
    )
    .filter(Boolean)
    .join("\n\n");
}

function one(block: Block, entry: Entry): string {
  switch (block.kind) {
    case "text": {
      const text = block.part?.text ?? "";
      return entry.message?.role === "user" ? text.replace(/^/gm, "> ") : text + (block.interrupted ? "\n\n⚠ Interrupted" : "");
    }
    case "tool":
    case "verify":
      return block.call ? `- ${verb(block.call)} \`${argument(block.call)}\` (${block.call.state})` : "";
    case "plan": {
      const { items } = (block.data as { plan: { items: { text: string; status: string }[] } }).plan;
      return items.map(item => `- [${item.status === "done" ? "x" : " "}] ${item.text}`).join("\n");
    }
    case "image":
    case "audio":
    case "file":
      return `[${block.part?.name ?? block.part?.ref ?? block.kind}]`;
    case "finalize_task":
      return String(block.data?.summary ?? "");
    case "change_report":
      return ((block.data?.files ?? []) as { path: string; added: number; removed: number }[])
        .map(file => `- \`${file.path}\` +${file.added} −${file.removed}`)
        .join("\n");
    default:
      return "";
  }
}
