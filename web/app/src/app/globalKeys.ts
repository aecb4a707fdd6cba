import { chord, command } from "./keys";

const ESC_TWICE_MS = 600;
const REGIONS = ["nav", "main .log", "#composer", "aside"];

/** The keys that mean something wherever the focus is. */
export function globalKeys(act: { palette: () => void; search: () => void; fresh: () => void; stop: () => void }): () => void {
  let lastEscape = 0;
  let lastFind = 0;
  const onKey = (event: KeyboardEvent) => {
    const inDialog = document.querySelector("dialog[open]") !== null;
    if (command(event) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      act.palette();
    } else if (command(event) && event.key.toLowerCase() === "f" && !event.shiftKey) {
      // The second one in a row is for the browser.
      if (inDialog && event.timeStamp - lastFind < 10_000) return;
      lastFind = event.timeStamp;
      event.preventDefault();
      act.search();
    } else if (chord(event) === "C") {
      event.preventDefault();
      act.fresh();
    } else if (event.key === "F6") {
      event.preventDefault();
      cycle(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape" && !inDialog) {
      if (event.timeStamp - lastEscape < ESC_TWICE_MS) {
        lastEscape = 0;
        act.stop();
      } else lastEscape = event.timeStamp;
    }
  };
  window.addEventListener("keydown", onKey);
  return () => window.removeEventListener("keydown", onKey);
}

function cycle(by: number): void {
  const regions = REGIONS.map(one => document.querySelector<HTMLElement>(one)).filter(
    one => one?.checkVisibility() ?? false,
  ) as HTMLElement[];
  const at = regions.findIndex(region => region.contains(document.activeElement));
  const next = regions[(at + by + regions.length) % regions.length];
  const target = next?.matches("textarea, .log") ? next : next?.querySelector<HTMLElement>("a, button");
  target?.focus();
}
