/**
 * The one WebSocket of a client: all sessions that are read, what is watched, and requests while it is open.
 *
 * It is opened when it is first needed and taken up again when it breaks, at the cursors of whoever reads. It ends when the token does,
 * or when the client is closed.
 */

import type { Unsubscribe } from "./chat-types.js";
import { type Connection, type Query, withQuery } from "./connection.js";
import { asError, Failed, type PalaverError, problem, Refused } from "./errors.js";
import { type Envelope, Feed, type Follower } from "./feed.js";
import { Listeners } from "./store.js";

export interface SocketLike {
  send(data: string): void;
  close(code?: number): void;
  addEventListener(type: "open" | "close" | "error" | "message", listener: (event: never) => void): void;
}
export type SocketConstructor = new (url: string) => SocketLike;

/** Where the connection stands. A client that nobody needed yet is `idle`. */
export interface ConnectionState {
  readonly state: "idle" | "connecting" | "open" | "waiting" | "closed";
  /** The daemon's, once it was heard. */
  readonly version: string | null;
  /** Why it is closed, or why it was lost. */
  readonly error: PalaverError | null;
  /** How often it was tried since it was last open. */
  readonly attempt: number;
}

/** What a watched daemon says. `watching` comes first, and again after a reconnect: list the sessions then. */
export interface WatchFrame {
  readonly type: "watching" | "session_changed" | "session_removed" | "draft_changed" | "notify";
  readonly data: Record<string, unknown>;
}

interface Frame extends Partial<Envelope> {
  readonly op?: string;
  readonly id?: number;
  readonly status?: number;
  readonly body?: unknown;
  readonly code?: string;
  readonly message?: string;
  readonly version?: string;
}

interface Asked {
  resolve(body: unknown): void;
  reject(error: PalaverError): void;
}

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
const READY_MS = 10_000;
const SILENCE_MS = 30_000;
const NO_TOKEN = 4401;
const WATCHED = new Set(["watching", "session_changed", "session_removed", "draft_changed", "notify"]);

export class Socket {
  readonly #connection: Connection;
  readonly #Constructor: SocketConstructor | undefined;
  readonly #feeds = new Map<string, Feed>();
  readonly #asked = new Map<number, Asked>();
  readonly #watchers = new Listeners<[WatchFrame]>();
  readonly #changes = new Listeners<[]>();
  #watching = 0;
  #focus: string | null = null;
  #notify: boolean | undefined;
  #socket: SocketLike | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #heardAt = 0;
  #number = 0;
  #syncing = false;
  state: ConnectionState = { state: "idle", version: null, error: null, attempt: 0 };

  constructor(connection: Connection, Constructor: SocketConstructor | undefined) {
    this.#connection = connection;
    this.#Constructor = Constructor;
  }

  onChange(listener: () => void): Unsubscribe {
    return this.#changes.add(listener);
  }

  get isOpen(): boolean {
    return this.state.state === "open";
  }

  // --- what is asked of it -------------------------------------------------------------------------------------------------------

  follow(sessionId: string, follower: Follower): Unsubscribe {
    let feed = this.#feeds.get(sessionId);
    if (feed === undefined) {
      feed = new Feed(sessionId, frame => this.#send(frame));
      this.#feeds.set(sessionId, feed);
    }
    feed.followers.add(follower);
    feed.renew();
    this.#soon();
    return () => {
      if (feed.followers.delete(follower)) this.#soon();
    };
  }

  watch(listener: (frame: WatchFrame) => void): Unsubscribe {
    this.#watching += 1;
    if (this.isOpen) this.#send({ op: "watch" });
    this.#connect();
    const leave = this.#watchers.add(listener);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      leave();
      this.#watching -= 1;
    };
  }

  focus(sessionId: string | null): void {
    this.#focus = sessionId;
    if (this.isOpen) this.#send({ op: "focus", session_id: sessionId });
  }

  notify(on: boolean): void {
    this.#notify = on;
    if (this.isOpen) this.#send({ op: "notify", on });
  }

  /** Over the socket where it is open, else as a request of its own. */
  request(method: string, path: string, body?: unknown, query?: Query): Promise<unknown> {
    if (!this.isOpen || path.includes("/attachments")) return this.#connection.request(method, path, body, query);
    this.#number += 1;
    const id = this.#number;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#send({ op: "request", id, method, path: withQuery(path, query), ...(body === undefined ? {} : { body }) });
    });
  }

  /** Returns when the daemon can be reached again; throws where it never will be. */
  async reachable(): Promise<void> {
    this.#connect();
    while (!this.isOpen) {
      if (this.state.state === "closed") throw this.state.error ?? closed();
      await new Promise<void>(resolve => {
        const leave = this.#changes.add(() => {
          leave();
          resolve();
        });
      });
    }
  }

  /** Try at once instead of when the pause is over: the machine woke up, or is online again. */
  retry(): void {
    if (this.state.state === "waiting") this.#open();
  }

  close(error: PalaverError = closed()): void {
    this.#end(error);
    this.#socket?.close(1000);
    this.#socket = undefined;
  }

  // --- the connection ------------------------------------------------------------------------------------------------------------

  #connect(): void {
    if (this.state.state === "idle") this.#open();
  }

  #open(): void {
    clearTimeout(this.#timer);
    this.#become({ state: "connecting", attempt: this.state.attempt + 1 });
    void this.#connection.prove().then(
      () => this.state.state === "connecting" && this.#dial(),
      error => {
        if (this.state.state !== "connecting") return;
        if (error instanceof Refused) this.#end(error);
        else this.#wait(asError(error));
      },
    );
  }

  #dial(): void {
    if (this.#Constructor === undefined) {
      return this.#end(new Refused("no_websocket", "There is no WebSocket here. Give one: createClient({ WebSocket })."));
    }
    const socket = new this.#Constructor(`${this.#connection.url.replace("http", "ws")}/v1/ws`);
    const isMine = () => this.#socket === socket;
    this.#socket = socket;
    this.#timer = setTimeout(() => isMine() && this.#lost(), READY_MS);
    socket.addEventListener("open", () => {
      if (isMine() && this.#connection.token !== undefined) this.#send({ op: "auth", token: this.#connection.token });
    });
    socket.addEventListener("message", (event: { data: unknown }) => isMine() && this.#take(String(event.data)));
    socket.addEventListener("error", () => {}); // a close follows
    socket.addEventListener("close", (event: { code: number }) => isMine() && this.#lost(event.code));
  }

  #lost(code?: number): void {
    const socket = this.#socket;
    this.#socket = undefined;
    socket?.close();
    this.#connection.doubt();
    if (code === NO_TOKEN) return this.#end(new Refused("no_token", "The token is unknown, was revoked or has expired. Sign in again."));
    this.#wait(new Failed("unreachable", `The connection to ${this.#connection.url} was lost.`));
  }

  #wait(error: PalaverError): void {
    clearTimeout(this.#timer);
    const { attempt } = this.state;
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, attempt - 1), LONGEST_PAUSE_MS);
    this.#timer = setTimeout(() => this.#open(), pause);
    this.#become({ state: "waiting", error });
    this.#rejectAll(error);
  }

  #end(error: PalaverError): void {
    if (this.state.state === "closed") return;
    clearTimeout(this.#timer);
    this.#become({ state: "closed", error });
    this.#rejectAll(error);
    for (const feed of [...this.#feeds.values()]) feed.refuse(error);
    this.#feeds.clear();
  }

  #rejectAll(error: PalaverError): void {
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    for (const one of asked) one.reject(error);
  }

  #become(change: Partial<ConnectionState>): void {
    this.state = { ...this.state, ...change };
    this.#changes.call();
  }

  #ready(version: string | undefined): void {
    this.#become({ state: "open", version: version ?? this.state.version, error: null, attempt: 0 });
    this.#listen();
    for (const feed of this.#feeds.values()) feed.reset();
    if (this.#watching > 0) this.#send({ op: "watch" });
    if (this.#focus !== null) this.#send({ op: "focus", session_id: this.#focus });
    if (this.#notify !== undefined) this.#send({ op: "notify", on: this.#notify });
    this.#sync();
  }

  /** A connection can die without a word: after a silence the daemon is asked, and has to answer. */
  #listen(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const heardAt = this.#heardAt;
      this.request("GET", "/v1/health").catch(() => {}); // only that something comes back matters
      this.#timer = setTimeout(() => (this.#heardAt === heardAt ? this.#lost() : this.#listen()), READY_MS);
      unref(this.#timer);
    }, SILENCE_MS);
    unref(this.#timer);
  }

  // --- frames --------------------------------------------------------------------------------------------------------------------

  #send(frame: object): void {
    this.#socket?.send(JSON.stringify(frame));
  }

  #take(text: string): void {
    const frame = JSON.parse(text) as Frame;
    this.#heardAt += 1;
    const kind = frame.op ?? frame.type ?? "";
    if (kind === "ready") this.#ready(frame.version);
    else if (kind === "reply") this.#answered(frame);
    else if (kind === "error") this.#refused(frame);
    else if (WATCHED.has(kind)) this.#watchers.call({ type: kind as WatchFrame["type"], data: frame.data ?? { ...frame } });
    else if (frame.session_id !== undefined) this.#feeds.get(frame.session_id)?.take(frame as Envelope);
  }

  #answered({ id, status = 0, body }: Frame): void {
    const asked = this.#asked.get(id ?? 0);
    this.#asked.delete(id ?? 0);
    if (status >= 400) asked?.reject(problem(status, body));
    else asked?.resolve(body);
  }

  #refused(frame: Frame): void {
    const error = new Refused(frame.code ?? "failed", frame.message ?? frame.code ?? "", { ...frame });
    if (frame.id !== undefined) {
      this.#asked.get(frame.id)?.reject(error);
      this.#asked.delete(frame.id);
    } else if (frame.session_id !== undefined) this.#feeds.get(frame.session_id)?.refuse(error);
  }

  /** Once all that happens now has happened: a component that leaves and comes again at once changes nothing. */
  #soon(): void {
    if (this.#syncing) return;
    this.#syncing = true;
    queueMicrotask(() => {
      this.#syncing = false;
      this.#sync();
    });
  }

  #sync(): void {
    for (const [id, feed] of [...this.#feeds]) {
      if (feed.followers.size === 0) {
        this.#feeds.delete(id);
        if (this.isOpen) this.#send({ op: "unsubscribe", session_id: id });
      } else if (this.isOpen) feed.sync();
      else if (this.state.state === "closed") feed.refuse(this.state.error ?? closed());
      else this.#connect();
    }
  }
}

export function closed(): Refused {
  return new Refused("client_closed", "This client was closed, so nothing goes through it any more. Make another one.");
}

/** Where timers keep a process alive, this one does not. */
function unref(timer: unknown): void {
  (timer as { unref?: () => void }).unref?.();
}
