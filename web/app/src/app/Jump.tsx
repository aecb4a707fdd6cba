import { useSyncExternalStore } from "react";
import type { Scroller } from "../transcript/scroller";
import { Icon } from "../ui/Icon";

/** Back to the end of the conversation, also from another part of it. */
export function Jump({
  scroller,
  waiting,
  past,
  latest,
}: {
  scroller: Scroller;
  waiting: number;
  past: boolean;
  latest: () => Promise<void>;
}) {
  const away = useSyncExternalStore(scroller.subscribe, scroller.isAway);
  return (
    <div className="jump" hidden={!away && !past}>
      <button type="button" className="btn" onClick={() => void latest().then(() => scroller.jump())}>
        <Icon name="down" />
        Jump to latest
        {waiting > 0 ? <span className="chip need tnum">{waiting} waiting</span> : null}
      </button>
    </div>
  );
}
