import { keyHint } from "../app/keys";
import type { Delivery } from "./DeliverySwitch";

/** The keys that matter now. Said elsewhere too, so screen readers are spared. */
export function Hints({ working, delivery, other }: { working: boolean; delivery: Delivery; other: Delivery }) {
  return (
    <div className="hint" aria-hidden="true">
      <span>
        <kbd>Enter</kbd> {working ? delivery : "send"}
      </span>
      {working ? (
        <>
          <span>
            <kbd>Alt Enter</kbd> {other}
          </span>
          <span>
            <kbd>Esc</kbd> <kbd>Esc</kbd> stop
          </span>
        </>
      ) : (
        <span>
          <kbd>Shift Enter</kbd> new line
        </span>
      )}
      <span>
        <kbd>{keyHint("Y")}</kbd> allow
      </span>
    </div>
  );
}
