import { useCallback, useLayoutEffect, useRef } from "react";
import { useAnnounce } from "../app/announce";
import { useHere } from "../app/here";
import { type Arming, UNARMED_WORDS } from "./arming";

/**
 * Puts a card on the board. `guarded` runs what an answer does, unless the card is not armed: then it says why.
 * A card that had the focus passes it on when it goes.
 */
export function useArmed(id: string, shown: string, ready = true) {
  const { arming } = useHere();
  const say = useAnnounce();
  const card = useRef<HTMLElement>(null);
  const end = useRef<HTMLSpanElement>(null);
  useLayoutEffect(() => {
    if (!ready || card.current === null || end.current === null) return;
    return arming.add(id, card.current, end.current, shown);
  }, [arming, id, shown, ready]);
  useLayoutEffect(() => {
    const own = card.current;
    return () => {
      if (own?.contains(document.activeElement)) passOn(arming, id);
    };
  }, [arming, id]);
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

/** To what waits next, else to the message box. Nothing scrolls: another card must not come under a finger. */
function passOn(arming: Arming, id: string): void {
  const next = arming.all().find(card => card.id !== id)?.element;
  // where fingers point, the message box would open a keyboard over the page
  const box = matchMedia("(pointer: coarse)").matches ? null : document.querySelector<HTMLElement>("#composer");
  (next ?? box)?.focus({ preventScroll: true });
}
