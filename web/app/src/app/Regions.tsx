import { visible } from "@palaver/client";
import { useCallback, useRef, useState } from "react";
import type { Announce } from "./announce";
import type { Deed } from "./useDeed";

interface Said {
  status: string;
  alert: string;
  toast: string;
}

const SHOWN_MS = 5000;

export function useRegions(): { said: Said; say: Announce } {
  const [said, setSaid] = useState<Said>({ status: "", alert: "", toast: "" });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const say = useCallback<Announce>((text, how = "status") => {
    clearTimeout(timer.current);
    setSaid(before => ({ ...before, [how]: text, toast: text }));
    timer.current = setTimeout(() => setSaid({ status: "", alert: "", toast: "" }), SHOWN_MS);
  }, []);
  return { said, say };
}

/** What is said to who listens, and shown for a moment to who looks. */
export function Regions({ said, deed }: { said: Said; deed: Deed | null }) {
  return (
    <>
      <div className="sr" role="status" id="status">
        {visible(said.status)}
      </div>
      <div className="sr" role="alert" id="alert">
        {visible(said.alert)}
      </div>
      {deed ? (
        <div className="toast" role="group" aria-label="Done">
          <span>{visible(deed.words)}</span>
          <button type="button" className="btn mini" onClick={deed.undo}>
            Undo
          </button>
        </div>
      ) : said.toast ? (
        <div className="toast" aria-hidden="true">
          {visible(said.toast)}
        </div>
      ) : null}
    </>
  );
}
