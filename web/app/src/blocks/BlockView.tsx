import type { Block } from "../shapes";
import { ApprovalBlock } from "./ApprovalBlock";
import { AskUserBlock } from "./AskUserBlock";
import { ChangeReportBlock } from "./ChangeReportBlock";
import { ExchangeBlock } from "./ExchangeBlock";
import { FinalizeBlock } from "./FinalizeBlock";
import { MediaBlock } from "./MediaBlock";
import { NoticeBlock } from "./NoticeBlock";
import { PlanBlock } from "./PlanBlock";
import { SubagentBlock } from "./SubagentBlock";
import { TextBlock } from "./TextBlock";
import { ThinkingBlock } from "./ThinkingBlock";
import { ToolBlock } from "./ToolBlock";
import { TurnEndBlock } from "./TurnEndBlock";
import type { Tail } from "./tail";
import { UnknownBlock } from "./UnknownBlock";
import { VerifyBlock } from "./VerifyBlock";

/** A block by its kind. `tail` is what of it the log does not confirm yet; `live` says that it still grows. */
export function BlockView({ block, tail, live, own }: { block: Block; tail: Tail; live: boolean; own: boolean }) {
  switch (block.kind) {
    case "text":
      return <TextBlock block={block} tail={tail} live={live} own={own} />;
    case "thinking":
      return <ThinkingBlock block={block} tail={tail} live={live} />;
    case "image":
    case "audio":
    case "file":
      return <MediaBlock block={block} />;
    case "tool":
      return <ToolBlock block={block} tail={tail} />;
    case "plan":
      return <PlanBlock block={block} />;
    case "ask_user":
      return <AskUserBlock block={block} />;
    case "approval":
      return <ApprovalBlock block={block} />;
    case "change_report":
      return <ChangeReportBlock block={block} />;
    case "finalize_task":
      return <FinalizeBlock block={block} />;
    case "subagent":
      return <SubagentBlock blocks={[block]} />;
    case "exchange":
      return <ExchangeBlock block={block} />;
    case "verify":
      return <VerifyBlock block={block} />;
    case "notice":
      return <NoticeBlock block={block} />;
    case "turn_end":
      return <TurnEndBlock block={block} />;
    default:
      return <UnknownBlock block={block} />;
  }
}
