/** Which rows are mounted: the newest hundred, more as somebody scrolls up, never above six hundred. Pure. */

export const FIRST = 100;
export const STEP = 100;
export const MOST = 600;

/** Places count from the first entry that this page ever had, so that what is put before it moves nothing. */
export interface Window {
  from: number;
  /** null: to the end, whatever comes. */
  to: number | null;
}

export function newest(first: number, end: number): Window {
  return { from: Math.max(first, end - FIRST), to: null };
}

export function earlier({ from, to }: Window, first: number, end: number): Window {
  const next = Math.max(first, from - STEP);
  const last = to ?? end;
  return last - next > MOST ? { from: next, to: next + MOST } : { from: next, to };
}

export function later({ from, to }: Window, end: number): Window {
  if (to === null) return { from, to };
  const next = to + STEP;
  const last = Math.min(next, end);
  return { from: Math.max(from, last - MOST), to: next >= end ? null : next };
}

/** Rows far behind are dropped while their person stays at the end. */
export function trimmed(window: Window, end: number): Window {
  return window.to === null && end - window.from > FIRST + STEP ? { from: end - FIRST, to: null } : window;
}

export function around(place: number, first: number, end: number): Window {
  const from = Math.max(first, place - STEP / 2);
  const to = from + STEP;
  return { from, to: to >= end ? null : to };
}
