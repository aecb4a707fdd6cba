import { visible } from "@palaver/client";
import { PlanSteps } from "../blocks/PlanSteps";
import { DiffFiles } from "../diff/DiffFiles";
import { Markdown } from "../markdown/Markdown";
import type { ApprovalAsk, PlanItem } from "../shapes";
import { Icon } from "../ui/Icon";

/** All that is decided upon, whole and wrapped: command or change or input, then its effects as facts, then the agent's reason. */
export function ApprovalPreview({ ask }: { ask: ApprovalAsk }) {
  const { command, diff, network } = ask.preview ?? {};
  const paths = ask.preview?.paths ?? [];
  const input = ask.tool_call?.input;
  const plan = ask.subject === "plan" ? (input as { items?: PlanItem[]; text?: string } | undefined) : undefined;
  return (
    <>
      <div className="pad">
        {command ? <code className="cmd">{visible(command)}</code> : null}
        {plan?.text ? (
          <div className="prose">
            <Markdown text={plan.text} />
          </div>
        ) : null}
        {plan?.items ? <PlanSteps items={plan.items} /> : null}
        {!command && !diff && !plan && input ? (
          <code className="cmd">
            {visible(ask.tool_call?.name ?? "")} {visible(JSON.stringify(input, null, 2))}
          </code>
        ) : null}
      </div>
      {diff ? <DiffFiles patch={diff} whole /> : null}
      <ul className="facts pad">
        {paths.map(path => (
          <li key={path}>
            <Icon name={ask.kind === "write" || ask.subject === "review" ? "edit" : "file"} />
            {ask.kind === "write" ? "Writes " : ""}
            <code>{visible(path)}</code>
          </li>
        ))}
        {network ? (
          <li>
            <Icon name="net" />
            Uses the network: {visible(network)}
          </li>
        ) : null}
        {ask.reason ? (
          <li>
            <Icon name="search" />
            Why: “{visible(ask.reason)}”
          </li>
        ) : null}
      </ul>
    </>
  );
}
