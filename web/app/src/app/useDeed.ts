import { useCallback, useEffect, useRef, useState } from "react";

export interface Deed {
  words: string;
  undo: () => void;
}

const LONG_MS = 8000;

/** Something that is done in a while, unless its person takes it back first. Another one, or leaving, does it at once. */
export function useDeed() {
  const [deed, setDeed] = useState<Deed | null>(null);
  const pending = useRef<{ commit: () => void; timer: ReturnType<typeof setTimeout> } | null>(null);
  const finish = useCallback(() => {
    const now = pending.current;
    pending.current = null;
    setDeed(null);
    if (now) {
      clearTimeout(now.timer);
      now.commit();
    }
  }, []);
  const begin = useCallback(
    (words: string, commit: () => void, takeBack: () => void) => {
      finish();
      const timer = setTimeout(finish, LONG_MS);
      pending.current = { commit, timer };
      setDeed({
        words,
        undo: () => {
          clearTimeout(timer);
          pending.current = null;
          setDeed(null);
          takeBack();
        },
      });
    },
    [finish],
  );
  useEffect(() => {
    window.addEventListener("pagehide", finish);
    return () => window.removeEventListener("pagehide", finish);
  }, [finish]);
  return { deed, begin };
}
