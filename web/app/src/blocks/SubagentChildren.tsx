import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { useChildren } from "../daemon/children";
import { Dot } from "../sidebar/Dot";
import { why } from "../sidebar/why";

const DEEPEST = 3;

/** The children of a child, as they are now. They are other sessions: what they did stands in their own transcripts. */
export function SubagentChildren({ parent, depth, ended }: { parent: string; depth: number; ended: boolean }) {
  const here = useHere();
  const children = useChildren(parent, ended);
  if (children.length === 0 || depth > DEEPEST) return null;
  return (
    <li className="kids" data-now="">
      <ul>
        {children.map(child => (
          <li key={child.id}>
            <Dot session={child} />
            <b>{visible(child.agent)}</b>
            <span className="task">{visible(why(child) || child.title || "")}</span>
            <button type="button" className="btn quiet mini" onClick={() => here.go(child.id)}>
              Open
            </button>
          </li>
        ))}
      </ul>
    </li>
  );
}
