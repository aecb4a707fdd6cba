/** A daemon, for programs: the primitives take it, and everything that the daemon can do is asked through it. */

import type { ClientSeam, EventHandler, SendInput, StreamEvent, Unsubscribe } from "./chat-types.js";
import { Connection, type Query } from "./connection.js";
import { type PalaverError, Refused } from "./errors.js";
import type { Follower } from "./feed.js";
import type { Handle, PostOptions } from "./handle.js";
import { userMessage } from "./message-steering.js";
import { Outbox } from "./outbox.js";
import { type Home, Session } from "./session.js";
import { type ConnectionState, closed, Socket, type SocketConstructor, type WatchFrame } from "./socket.js";
import { Listeners } from "./store.js";
import type * as wire from "./wire.gen.js";

export interface ClientOptions {
  /** Where the daemon is: the page's own address in a browser, else `$PALAVER_URL`, else `http://127.0.0.1:8787`. */
  url?: string | undefined;
  /** Else `$PALAVER_TOKEN`. A daemon that runs with `--no-token` needs none. */
  token?: string | undefined;
  /** Where there is none, as in Node 20: that of the package `ws`. */
  WebSocket?: unknown;
  fetch?: typeof fetch | undefined;
}

const DEFAULT_URL = "http://127.0.0.1:8787";

/** A client of one daemon. It reaches for it when something is first asked of it, and stays until `close`. */
export function createClient(options: ClientOptions = {}): Client {
  return new Client(options);
}

export class Client implements ClientSeam, Home {
  readonly connection: Connection;
  readonly socket: Socket;
  readonly outbox: Outbox;
  readonly #sessions = new Map<string, Session>();
  readonly #events = new Listeners<[StreamEvent]>();
  readonly #refusals = new Listeners<[PalaverError]>();
  #unheard: Array<{ error: PalaverError; handle: Handle | undefined }> = [];

  constructor(options: ClientOptions = {}) {
    const environment = (globalThis as { process?: { env?: Record<string, string | undefined> } }).process?.env ?? {};
    const origin = (globalThis as { location?: { origin?: string } }).location?.origin;
    const here = origin?.startsWith("http") ? origin : undefined;
    const url = options.url ?? here ?? environment.PALAVER_URL ?? DEFAULT_URL;
    const fetcher = options.fetch ?? ((input, init) => fetch(input, init));
    this.connection = new Connection(url, options.token ?? environment.PALAVER_TOKEN, fetcher);
    this.socket = new Socket(this.connection, (options.WebSocket ?? globalThis.WebSocket) as SocketConstructor | undefined);
    this.outbox = new Outbox(this.socket);
    globalThis.addEventListener?.("online", this.#retry);
  }

  /** A browser says when its machine is connected again: no pause is waited for then. */
  readonly #retry = (): void => this.reconnect();

  get url(): string {
    return this.connection.url;
  }

  // --- sessions ------------------------------------------------------------------------------------------------------------------

  /** The one accessor of that session. */
  session(id: string): Session {
    let session = this.#sessions.get(id);
    if (session === undefined) {
      session = new Session(this, id);
      this.#sessions.set(id, session);
    }
    return session;
  }

  /** Hand over one message or several, which go one by one; the handle is the last one's. */
  send(input: SendInput | string, options: { sessionId?: string; delivery?: PostOptions["delivery"] } = {}): Handle {
    const { sessionId, delivery } = options;
    if (!sessionId) throw new Refused("no_session", "A message goes to a session. Give sessionId, or make a session first: newSession().");
    const messages = typeof input === "string" ? [userMessage(input)] : input.messages;
    const handles = messages.map(message => this.session(sessionId).post(message, delivery === undefined ? {} : { delivery }));
    const last = handles.at(-1);
    if (last === undefined) throw new Refused("no_message", "There is no message to send. Give at least one.");
    return last;
  }

  /** The id of a new session that works in that folder; `fields` are those of `POST /v1/sessions`. */
  async newSession(workspacePath: string, fields: Omit<wire.NewSession, "workspace_path"> = {}): Promise<string> {
    const body = await this.request<wire.NewSessionAnswer>("POST", "/v1/sessions", { workspace_path: workspacePath, ...fields });
    return body.session_id;
  }

  /** All that the sessions which are read here tell. */
  onEvent(handler: EventHandler): Unsubscribe {
    return this.#events.add(handler);
  }

  /** The envelopes of a session after `follower.after`, and whatever comes; the way of `Transcript`, which reads no whole log. */
  follow(sessionId: string, follower: Follower): Unsubscribe {
    return this.socket.follow(sessionId, follower);
  }

  // --- the daemon ----------------------------------------------------------------------------------------------------------------

  /** Any route of the daemon: the decoded body of its answer. Throws `Refused` and `Failed` as they are answered. */
  async request<T = unknown>(method: string, path: string, body?: unknown, query?: Query): Promise<T> {
    return (await this.socket.request(method, path, body, query)) as T;
  }

  /** Any route, with the token and without decoding: attachments, artifacts, exports. */
  fetch(path: string, init?: RequestInit): Promise<Response> {
    return this.connection.fetch(path, init);
  }

  approve(approvalId: string, action: "approve" | "deny" = "approve", fields: wire.ApprovalAnswer = {}): Promise<wire.ApprovalOutcome> {
    const body = { action, client_answer_id: crypto.randomUUID(), ...fields };
    return this.request("POST", `/v1/approvals/${encodeURIComponent(approvalId)}`, body);
  }

  /** Answer a question: `{answers}`, `{agent_decides: true}` or `{declined: true}`. */
  answer(questionId: string, fields: wire.QuestionAnswer): Promise<wire.QuestionOutcome> {
    const body = { client_answer_id: crypto.randomUUID(), ...fields };
    return this.request("POST", `/v1/questions/${encodeURIComponent(questionId)}`, body);
  }

  /** Hear of every session's changes; list the sessions at each `watching`. */
  watch(listener: (frame: WatchFrame) => void): Unsubscribe {
    return this.socket.watch(listener);
  }

  /** Which session its person looks at, so that nobody is notified of it. */
  focus(sessionId: string | null): void {
    this.socket.focus(sessionId);
  }

  notify(on: boolean): void {
    this.socket.notify(on);
  }

  // --- the connection ------------------------------------------------------------------------------------------------------------

  get connectionState(): ConnectionState {
    return this.socket.state;
  }

  onConnectionChange(listener: () => void): Unsubscribe {
    return this.socket.onChange(listener);
  }

  /** Try to reach the daemon at once, where a pause is being made. */
  reconnect(): void {
    this.socket.retry();
  }

  /** Hear of commands that were not taken: messages, answers, changes of the queue. */
  onRefused(listener: (error: PalaverError) => void): Unsubscribe {
    return this.#refusals.add(listener);
  }

  /** Wait for all that was handed over; throws the first refusal that nobody has heard of. */
  async drain(): Promise<void> {
    await this.outbox.drained();
    const unheard = this.#unheard.find(one => one.handle?.isHeard !== true);
    this.#unheard = [];
    if (unheard !== undefined) throw unheard.error;
  }

  /** Leave the daemon. What is on its way is not waited for: `drain` does that. */
  close(): void {
    globalThis.removeEventListener?.("online", this.#retry);
    this.socket.close(closed());
  }

  // --- for its sessions ----------------------------------------------------------------------------------------------------------

  tell(event: StreamEvent): void {
    this.#events.call(event);
  }

  refused(error: PalaverError, handle?: Handle): void {
    this.#unheard = [...this.#unheard.slice(-99), { error, handle }];
    this.#refusals.call(error);
  }
}
