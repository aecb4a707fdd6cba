import { useSyncExternalStore } from "react";

/** What its person opened and closed, by the block's id. It belongs to the page and not to the transcript. */
export class Toggles {
  private readonly chosen = new Map<string, boolean>();
  private readonly listeners = new Set<() => void>();

  get = (id: string): boolean | undefined => this.chosen.get(id);

  set(id: string, open: boolean): void {
    this.chosen.set(id, open);
    for (const listener of this.listeners) listener();
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };
}

export function useToggle(toggles: Toggles, id: string, unasked: boolean): [boolean, () => void] {
  const open = useSyncExternalStore(toggles.subscribe, () => toggles.get(id)) ?? unasked;
  return [open, () => toggles.set(id, !open)];
}
