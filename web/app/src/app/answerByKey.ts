import type { Arming } from "../cards/arming";
import { chord } from "./keys";

/** Alt+Y, Alt+A and Alt+N mean the marked card, wherever the focus is; Alt+J and Alt+K step through what waits. */
export function answerByKey(arming: Arming): () => void {
  const onKey = (event: KeyboardEvent) => {
    const letter = chord(event);
    const answer = { Y: "allow", A: "always", N: "deny" }[letter];
    if (answer) {
      event.preventDefault();
      if (event.repeat) return;
      const id = arming.marked();
      if (id !== null) button(arming, id, answer)?.click();
    } else if (letter === "J" || letter === "K") {
      event.preventDefault();
      step(arming, letter === "J" ? 1 : -1);
    }
  };
  window.addEventListener("keydown", onKey);
  return () => window.removeEventListener("keydown", onKey);
}

function button(arming: Arming, id: string, answer: string): HTMLButtonElement | null {
  const card = arming.all().find(one => one.id === id);
  return card?.element.querySelector<HTMLButtonElement>(`[data-answer="${answer}"]`) ?? null;
}

function step(arming: Arming, by: number): void {
  const cards = arming.all();
  if (cards.length === 0) return;
  const at = cards.findIndex(card => card.element.contains(document.activeElement));
  const next = cards[(at + by + cards.length) % cards.length] ?? cards[0];
  next?.element.scrollIntoView({ block: "nearest" });
  next?.element.focus();
}
