/**
 * One daemon over HTTP: its address, requests and answers, and the proof of who listens.
 *
 * Before a token goes to a port for the first time, and again after it could not be reached, the daemon has to prove that it knows the
 * token: `GET /v1/health?token_id=ID&nonce=N` has to answer `proof` = HMAC-SHA256(SHA-256(token), N + port). A program that took the port
 * of a daemon that died learns no token. `fetch` and WebSocket do not say which TCP connection they use, so between the proof and the
 * token a port can still change hands; Python's client, which can, asks on the very same connection.
 */

import { Failed, problem, Refused } from "./errors.js";

export type Query = Readonly<Record<string, string | number | boolean | null | undefined>>;

export class Connection {
  readonly url: string;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;
  #proof: Promise<void> | undefined;

  constructor(url: string, token: string | undefined, fetcher: typeof fetch) {
    this.url = checkUrl(url);
    this.#token = token;
    this.#fetch = fetcher;
  }

  get token(): string | undefined {
    return this.#token;
  }

  /** Ask and get the decoded answer; a query's null values are left out. Throws `Refused` and `Failed` as they are answered. */
  async request(method: string, path: string, body?: unknown, query?: Query): Promise<unknown> {
    const init: RequestInit = body === undefined ? { method } : { method, body: JSON.stringify(body) };
    const headers = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await this.fetch(withQuery(path, query), { ...init, headers });
    const text = await response.text();
    const said = text === "" ? null : decoded(text);
    if (!response.ok) throw problem(response.status, said);
    return said;
  }

  /** Any route, with the token: attachments, artifacts, exports. The answer is given as it is, also one that says no. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    await this.prove();
    const headers = new Headers(init.headers);
    if (this.#token !== undefined) headers.set("Authorization", `Bearer ${this.#token}`);
    return this.#reach(path, { ...init, headers });
  }

  /** Returns when the daemon has proven that it knows the token; throws `Refused("not_proven")` where it does not. */
  prove(): Promise<void> {
    if (this.#token === undefined) return Promise.resolve();
    this.#proof ??= this.#ask(this.#token).catch(error => {
      this.#proof = undefined;
      throw error;
    });
    return this.#proof;
  }

  /** The daemon went away: whoever listens next has to prove it again. */
  doubt(): void {
    this.#proof = undefined;
  }

  async #ask(token: string): Promise<void> {
    const nonce = hex(crypto.getRandomValues(new Uint8Array(16)));
    const response = await this.#reach(withQuery("/v1/health", { token_id: token.split(".")[0], nonce }), {});
    const said = response.ok ? ((await response.json().catch(() => null)) as { proof?: unknown } | null) : null;
    if (said?.proof !== (await proof(token, nonce, portOf(this.url)))) {
      throw new Refused(
        "not_proven",
        `What listens at ${this.url} does not know this token, so it was not sent. Check the address, and that the token was not revoked.`,
      );
    }
  }

  async #reach(path: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#fetch(this.url + path, { ...init, redirect: "error", credentials: "omit" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      this.doubt();
      throw new Failed("unreachable", `The daemon at ${this.url} cannot be reached (${String(error)}). Start it with \`palaver serve\`.`);
    }
  }
}

/** What a daemon that knows `token` answers to `nonce` on `port`. */
export async function proof(token: string, nonce: string, port: number): Promise<string> {
  const bytes = new TextEncoder();
  const secret = await crypto.subtle.digest("SHA-256", bytes.encode(token));
  const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return hex(new Uint8Array(await crypto.subtle.sign("HMAC", key, bytes.encode(`${nonce}${port}`))));
}

/** The address without a path. Throws `Refused("bad_url")` unless it is one that a daemon can have. */
export function checkUrl(url: string): string {
  const parts = URL.canParse(url) ? new URL(url) : undefined;
  if (parts?.protocol !== "http:" || !["127.0.0.1", "localhost"].includes(parts.hostname) || parts.username !== "") {
    throw new Refused(
      "bad_url",
      `${JSON.stringify(url)} is no address of a daemon: it reads http://127.0.0.1:PORT. ` +
        "For one on another machine, bring its port here first: ssh -L PORT:127.0.0.1:PORT HOST.",
    );
  }
  return parts.origin;
}

export function withQuery(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined);
  const said = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return said === "" ? path : `${path}?${said}`;
}

function portOf(url: string): number {
  return Number(new URL(url).port || "80");
}

function decoded(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Failed("bad_answer", "The daemon's answer is no JSON. Check the address.");
  }
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
}
