import { useSyncExternalStore } from "react";
import type { Scroller } from "../transcript/scroller";
import { Icon } from "../ui/Icon";

export function Jump({ scroller, waiting }: { scroller: Scroller; waiting: number }) {
  const away = useSyncExternalStore(scroller.subscribe, scroller.isAway);
  return (
    <div className="jump" hidden={!away}>
      <button type="button" className="btn" onClick={() => scroller.jump()}>
        <Icon name="down" />
        Jump to latest
        {waiting > 0 ? <span className="chip need tnum">{waiting} waiting</span> : null}
      </button>
    </div>
  );
}
