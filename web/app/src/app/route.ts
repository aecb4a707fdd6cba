import { useSyncExternalStore } from "react";

/** Where the page is: a session, perhaps a moment of its past. */
export interface Route {
  session: string | null;
  at: number | null;
}

const listeners = new Set<() => void>();
let current = read();

function read(): Route {
  const session = /^\/s\/([^/]+)$/.exec(location.pathname)?.[1] ?? null;
  const at = new URLSearchParams(location.search).get("at");
  return { session, at: at === null || !/^\d+$/.test(at) ? null : Number(at) };
}

window.addEventListener("popstate", tell);

function tell(): void {
  current = read();
  for (const listener of listeners) listener();
}

export function goTo(session: string | null): void {
  const path = session === null ? "/" : `/s/${session}`;
  if (path !== location.pathname || location.search !== "") history.pushState(null, "", path);
  tell();
}

export function useRoute(): Route {
  return useSyncExternalStore(
    listener => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}
