import { visible } from "@palaver/client";
import type { PlanItem } from "../shapes";
import { Icon } from "../ui/Icon";

const MARK = { done: "check", in_progress: "ring", pending: "circle", dropped: "x" } as const;
const CLASS = { done: "done", in_progress: "now", pending: undefined, dropped: "dropped" } as const;
const SAID = { done: "Done:", in_progress: "In progress:", pending: "To do:", dropped: "Dropped:" } as const;

export function PlanSteps({ items }: { items: PlanItem[] }) {
  return (
    <ol className="pad steps">
      {items.map((item, place) => (
        <li key={item.id ?? place} className={CLASS[item.status]} aria-current={item.status === "in_progress" ? "step" : undefined}>
          <span className="st">
            <Icon name={MARK[item.status]} spin={item.status === "in_progress"} />
          </span>
          <span>
            <span className="sr">{SAID[item.status]} </span>
            {visible(item.text, { prose: true })}
          </span>
          <em>{item.status === "in_progress" ? "in progress" : ""}</em>
        </li>
      ))}
    </ol>
  );
}
