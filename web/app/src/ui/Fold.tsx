import type { ReactNode } from "react";
import { useHere } from "../app/here";
import { useToggle } from "../transcript/toggles";
import { Icon } from "./Icon";

/** A disclosure that remembers what its person chose; until then it is open where that helps. */
export function Fold({
  id,
  className,
  open: unasked = false,
  summary,
  chevronFirst = false,
  children,
  ...data
}: {
  id: string;
  className: string;
  open?: boolean;
  summary: ReactNode;
  chevronFirst?: boolean;
  children: ReactNode;
  [data: `data-${string}`]: string | undefined;
}) {
  const [open, toggle] = useToggle(useHere().toggles, id, unasked);
  return (
    <details className={className} open={open} {...data}>
      <summary
        onClick={event => {
          event.preventDefault();
          toggle();
        }}
      >
        {chevronFirst ? <Icon name="chev" /> : null}
        {summary}
        {chevronFirst ? null : <Icon name="chev" />}
      </summary>
      {children}
    </details>
  );
}
