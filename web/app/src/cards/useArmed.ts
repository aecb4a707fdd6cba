import { useCallback, useLayoutEffect, useRef } from "react";
import { useAnnounce } from "../app/announce";
import { useHere } from "../app/here";
import { UNARMED_WORDS } from "./arming";

/** Puts a card on the board. `guarded` runs what an answer does, unless the card is not armed: then it says why. */
export function useArmed(id: string, shown: string, ready = true) {
  const { arming } = useHere();
  const say = useAnnounce();
  const card = useRef<HTMLElement>(null);
  const end = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (!ready || card.current === null || end.current === null) return;
    return arming.add(id, card.current, end.current, shown);
  }, [arming, id, shown, ready]);
  const guarded = useCallback(
    (act: () => void) => {
      const why = arming.unarmed(id);
      if (why === null) act();
      else say(UNARMED_WORDS[why]);
    },
    [arming, id, say],
  );
  return { card, end, guarded };
}
