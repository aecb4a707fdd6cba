/**
 * Which cards may be answered, and which of them a key means. Nothing fires by accident:
 *
 * - A card is armed 400 ms after it appeared and after the window became visible and focused, once the end of what it shows was in view.
 * - A key means the marked card only: the oldest that was whole in view for 400 ms. A new one never becomes marked by arriving.
 * - A change of what a card shows disarms it.
 *
 * All of it lives here and in no attribute, so that what a live page shows and what a loaded one shows are the same.
 */

export const ARM_MS = 400;

interface Card {
  id: string;
  element: HTMLElement;
  since: number;
  /** What it shows; another one disarms. */
  shown: string;
  endSeen: boolean;
  wholeSince: number | null;
}

export type Unarmed = "gone" | "new" | "away" | "unseen";

export class Arming {
  private readonly cards = new Map<string, Card>();
  private readonly ends = new WeakMap<Element, Card>();
  private focusedSince: number;
  private readonly seen: IntersectionObserver;
  private readonly whole: IntersectionObserver;

  constructor(private readonly now: () => number = () => performance.now()) {
    this.focusedSince = attended() ? now() : Number.POSITIVE_INFINITY;
    this.seen = new IntersectionObserver(entries => {
      for (const entry of entries) {
        const card = this.ends.get(entry.target);
        if (card && entry.isIntersecting) card.endSeen = true;
      }
    });
    this.whole = new IntersectionObserver(
      entries => {
        for (const entry of entries) {
          const card = this.cards.get((entry.target as HTMLElement).dataset.ask ?? "");
          if (card) card.wholeSince = isWhole(entry) ? (card.wholeSince ?? this.now()) : null;
        }
      },
      { threshold: [0, 0.25, 0.5, 0.75, 0.9, 0.99, 1] },
    );
  }

  /** Called while the page is open; the answer ends it. */
  attend(): () => void {
    const look = () => {
      const here = attended();
      if (!here) this.focusedSince = Number.POSITIVE_INFINITY;
      else if (this.focusedSince === Number.POSITIVE_INFINITY) this.focusedSince = this.now();
    };
    look();
    window.addEventListener("focus", look);
    window.addEventListener("blur", look);
    document.addEventListener("visibilitychange", look);
    return () => {
      window.removeEventListener("focus", look);
      window.removeEventListener("blur", look);
      document.removeEventListener("visibilitychange", look);
    };
  }

  /** `end` stands right after what is to be seen. */
  add(id: string, element: HTMLElement, end: HTMLElement, shown: string): () => void {
    const card: Card = { id, element, since: this.now(), shown, endSeen: false, wholeSince: null };
    this.cards.set(id, card);
    this.ends.set(end, card);
    this.seen.observe(end);
    this.whole.observe(element);
    return () => {
      if (this.cards.get(id) === card) this.cards.delete(id);
      this.seen.unobserve(end);
      this.whole.unobserve(element);
    };
  }

  /** Why a card may not be answered yet; null where it may. */
  unarmed(id: string): Unarmed | null {
    const card = this.cards.get(id);
    if (!card) return "gone";
    const now = this.now();
    if (!attended() || now - this.focusedSince < ARM_MS) return "away";
    if (now - card.since < ARM_MS) return "new";
    return card.endSeen ? null : "unseen";
  }

  /** The card that a key means. */
  marked(): string | null {
    const now = this.now();
    for (const card of [...this.cards.values()].sort((a, b) => a.since - b.since)) {
      if (card.wholeSince !== null && now - card.wholeSince >= ARM_MS && this.unarmed(card.id) === null) return card.id;
    }
    return null;
  }

  /** The cards on the page, the oldest first. */
  all(): { id: string; element: HTMLElement }[] {
    return [...this.cards.values()].sort((a, b) => a.since - b.since);
  }
}

function attended(): boolean {
  return document.visibilityState === "visible" && document.hasFocus();
}

/** All of it in view; of one that is taller than the view, as much as fits. */
function isWhole(entry: IntersectionObserverEntry): boolean {
  const room = entry.rootBounds?.height ?? window.innerHeight;
  return entry.intersectionRatio >= 0.99 || (entry.boundingClientRect.height > room && entry.intersectionRect.height >= room * 0.9);
}

export const UNARMED_WORDS: Record<Unarmed, string> = {
  gone: "This was answered already",
  new: "This has only just appeared: look first, then answer",
  away: "You have only just come back: look first, then answer",
  unseen: "See all of it first: it goes on below",
};
