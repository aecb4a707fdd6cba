/**
 * How this browser got in. The address holds a one-time code behind its `#`; it is exchanged for a token of this browser's own, which stays in
 * this origin's storage, and taken out of the address bar before anything else happens.
 */

const KEY = "palaver:token";

interface Kept {
  token: string;
  expires_at: string;
}

export function token(): string | null {
  const kept = localStorage.getItem(KEY);
  return kept === null ? null : (JSON.parse(kept) as Kept).token;
}

export function forget(): void {
  localStorage.removeItem(KEY);
}

export type Entered = "in" | "out" | { refused: string };

/** Whether somebody is signed in after this, or why the code was not taken. */
export async function enter(): Promise<Entered> {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    const refused = await exchange(code);
    if (refused !== null && token() === null) return { refused };
  }
  if (token() !== null) return "in";
  return (await needsNone()) ? "in" : "out";
}

async function exchange(code: string): Promise<string | null> {
  const answer = await fetch("/v1/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ code }),
  });
  const said = (await answer.json()) as Kept & { detail?: string };
  if (!answer.ok) return said.detail ?? "This sign-in link was not taken.";
  localStorage.setItem(KEY, JSON.stringify({ token: said.token, expires_at: said.expires_at }));
  return null;
}

/** A daemon that was started without tokens answers anybody who may come. */
async function needsNone(): Promise<boolean> {
  const answer = await fetch("/v1/workspaces").catch(() => null);
  return answer?.ok ?? false;
}

/** Ends the token, so that what is kept of it anywhere opens nothing. */
export async function revoke(): Promise<void> {
  const own = token();
  forget();
  if (own === null) return;
  const id = own.split(".")[0] ?? "";
  await fetch(`/v1/tokens/${id}`, { method: "DELETE", headers: { authorization: `Bearer ${own}` } }).catch(() => null);
}
