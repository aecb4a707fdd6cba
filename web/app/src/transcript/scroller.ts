/**
 * How the transcript moves. `following`: pinned to its end while it grows. `anchored`: what was just sent stands near the top and stays.
 * `free`: its person reads, and nothing moves. Any step upwards leaves following at once; reaching the end, or asking for it, enters it.
 */

export type Following = "following" | "anchored" | "free";

const END = 24;
const UP_KEYS = new Set(["PageUp", "Home", "ArrowUp"]);

export class Scroller {
  mode: Following = "following";
  private readonly listeners = new Set<() => void>();
  private log: HTMLElement | null = null;
  private col: HTMLElement | null = null;
  private anchor: string | null = null;
  private away = false;
  private lastTop = 0;

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Whether the end is out of sight. */
  isAway = (): boolean => this.away;

  attach(log: HTMLElement, col: HTMLElement): () => void {
    this.log = log;
    this.col = col;
    const observer = new ResizeObserver(() => this.keep());
    observer.observe(col);
    observer.observe(log);
    let touch = 0;
    const abort = new AbortController();
    const on = <K extends keyof HTMLElementEventMap>(type: K, run: (event: HTMLElementEventMap[K]) => void) =>
      log.addEventListener(type, run, { passive: true, signal: abort.signal });
    on("wheel", event => event.deltaY < 0 && this.leave());
    on("touchstart", event => {
      touch = event.touches[0]?.clientY ?? 0;
    });
    on("touchmove", event => (event.touches[0]?.clientY ?? 0) > touch && this.leave());
    on("keydown", event => UP_KEYS.has(event.key) && this.leave());
    on("scroll", () => this.scrolled());
    document.addEventListener("selectionchange", () => this.selected(), { signal: abort.signal });
    this.keep();
    return () => {
      observer.disconnect();
      abort.abort();
      this.log = this.col = null;
    };
  }

  /** Something was sent: it goes near the top as soon as it stands in the transcript. */
  sent(): void {
    this.mode = "following";
    this.anchor = "next";
    this.keep();
  }

  /** The row of what was sent is there now. */
  arrived(id: string): void {
    if (this.anchor !== "next") return;
    this.anchor = id;
    this.mode = "anchored";
    this.keep();
  }

  jump(): void {
    this.mode = "following";
    this.anchor = null;
    this.keep();
  }

  leave(): void {
    if (this.mode === "free") return;
    this.mode = "free";
    this.look();
  }

  /** Where the first row in view stands, to be put back after rows came before it. */
  held(): { id: string; top: number } | null {
    if (!this.log || !this.col) return null;
    const edge = this.log.getBoundingClientRect().top;
    for (const row of this.col.querySelectorAll<HTMLElement>("[data-id]")) {
      const { top, bottom } = row.getBoundingClientRect();
      if (bottom > edge) return { id: row.dataset.id ?? "", top };
    }
    return null;
  }

  hold(before: { id: string; top: number } | null): void {
    if (!before || !this.log || this.mode !== "free") return;
    const row = this.row(before.id);
    if (row) this.log.scrollTop += row.getBoundingClientRect().top - before.top;
  }

  /** Brings a row into view and stays there. */
  show(id: string): boolean {
    const row = this.row(id);
    if (!row) return false;
    this.leave();
    row.scrollIntoView({ block: "center" });
    return true;
  }

  private keep(): void {
    const { log, col } = this;
    if (!log || !col) return;
    if (this.mode === "following") {
      col.style.minHeight = "";
      log.scrollTop = log.scrollHeight;
    } else if (this.mode === "anchored") this.keepAnchored(log, col);
    this.look();
  }

  private keepAnchored(log: HTMLElement, col: HTMLElement): void {
    const row = this.row(this.anchor ?? "");
    if (!row) return;
    const top = row.getBoundingClientRect().top - col.getBoundingClientRect().top;
    col.style.minHeight = `${top + log.clientHeight - 48}px`;
    log.scrollTop = top;
  }

  /** Downwards to the end is the way back to following; whoever is there because they have not left yet stays free to leave. */
  private scrolled(): void {
    const { log } = this;
    if (!log) return;
    const isDown = log.scrollTop > this.lastTop;
    this.lastTop = log.scrollTop;
    if (this.mode === "free" && isDown && log.scrollHeight - log.scrollTop - log.clientHeight <= END) this.mode = "following";
    this.look();
  }

  private look(): void {
    const { log, col } = this;
    if (!log || !col) return;
    const last = col.lastElementChild?.getBoundingClientRect().bottom ?? 0;
    const under = last - log.getBoundingClientRect().bottom;
    this.tell(this.mode !== "following" && under > 80);
  }

  private selected(): void {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && this.log?.contains(selection.anchorNode)) this.leave();
  }

  private row(id: string): HTMLElement | null {
    return this.col?.querySelector<HTMLElement>(`[data-id="${CSS.escape(id)}"]`) ?? null;
  }

  private tell(away: boolean): void {
    if (away === this.away) return;
    this.away = away;
    for (const listener of this.listeners) listener();
  }
}
