import { count } from "../text/format";

export function Counts({ added, removed }: { added: number; removed: number }) {
  return (
    <>
      <span className="plus">+{count(added)}</span> <span className="minus">−{count(removed)}</span>
    </>
  );
}
