/**
 * The page's one socket: every request and every session's events go over it.
 *
 * It opens itself again when it is lost, sooner at first and then every five seconds, and at once when the network or the window comes back.
 * Who follows a session says where it stands, so nothing is missed and nothing comes twice. A request whose answer did not come is `Offline`:
 * whoever must be sure asks again with an id that makes it count once.
 */

import { Offline } from "./daemon";

export interface Frame {
  type: string;
  session_id?: string;
  turn_id?: string | null;
  seq?: number;
  ts?: string;
  data: Record<string, unknown>;
}

export interface Answered {
  status: number;
  body: unknown;
}

interface Follower {
  cursor: () => number;
  take: (frame: Frame) => void;
}

const SOONEST_MS = 250;
const LATEST_MS = 5000;
/** A socket that is silent for so long is asked whether it lives. */
const SILENCE_MS = 20_000;
const PATIENCE_MS = 8000;

export class Wire {
  /** Whether requests are answered now. */
  open = false;
  /** The daemon's, once it said so. */
  version: string | null = null;
  onChange: () => void = () => {};
  onSignedOut: () => void = () => {};
  onNews: (frame: Frame) => void = () => {};

  private socket: WebSocket | null = null;
  private readonly followers = new Map<string, Follower>();
  private readonly waiting = new Map<number, { done: (answer: Answered) => void; fail: (error: Error) => void }>();
  private numbers = 0;
  private tries = 0;
  private again: ReturnType<typeof setTimeout> | undefined;
  private doctor: ReturnType<typeof setTimeout> | undefined;
  private focus: string | null = null;
  private stopped = false;

  constructor(
    private readonly address: string,
    private readonly token: () => string | null,
  ) {
    window.addEventListener("online", this.hurry);
    document.addEventListener("visibilitychange", this.hurry);
  }

  start(): void {
    this.stopped = false;
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.again);
    this.socket?.close();
  }

  request(method: string, path: string, body?: unknown): Promise<Answered> {
    const { socket } = this;
    if (!this.open || socket === null) return Promise.reject(new Offline());
    const id = ++this.numbers;
    return new Promise((done, fail) => {
      this.waiting.set(id, { done, fail });
      socket.send(JSON.stringify({ op: "request", id, method, path, body: body ?? null }));
    });
  }

  /** From where `cursor` says, now and after every reconnect. The answer ends it. */
  follow(sessionId: string, follower: Follower): () => void {
    this.followers.set(sessionId, follower);
    if (this.open) this.subscribe(sessionId, follower);
    return () => {
      if (this.followers.get(sessionId) !== follower) return;
      this.followers.delete(sessionId);
      this.say({ op: "unsubscribe", session_id: sessionId });
    };
  }

  /** The session begins anew, from where its follower stands now. */
  refollow(sessionId: string): void {
    const follower = this.followers.get(sessionId);
    if (follower && this.open) this.subscribe(sessionId, follower);
  }

  /** Which session its person looks at. */
  look(sessionId: string | null): void {
    if (this.focus === sessionId) return;
    this.focus = sessionId;
    this.say({ op: "focus", session_id: sessionId });
  }

  notify(on: boolean): void {
    this.say({ op: "notify", on });
  }

  private say(frame: object): void {
    if (this.open) this.socket?.send(JSON.stringify(frame));
  }

  private subscribe(sessionId: string, follower: Follower): void {
    this.say({ op: "subscribe", session_id: sessionId, after: follower.cursor(), tail: true });
  }

  private readonly hurry = (): void => {
    if (this.stopped || this.socket !== null || document.hidden) return;
    this.tries = 0;
    this.connect();
  };

  private connect(): void {
    clearTimeout(this.again);
    if (this.socket !== null || this.token() === null) return;
    const socket = new WebSocket(this.address);
    this.socket = socket;
    socket.onopen = () => socket.send(JSON.stringify({ op: "auth", token: this.token() }));
    socket.onmessage = event => {
      this.listen();
      this.take(JSON.parse(String(event.data)) as Record<string, unknown>);
    };
    socket.onclose = event => this.lost(socket, event.code);
  }

  private take(said: Record<string, unknown>): void {
    if (said.op === "reply") return this.answered(said);
    if (said.op === "ready") return this.ready(said);
    if (said.op === "error") return this.failed(said);
    const frame = said as unknown as Frame;
    if (frame.session_id && this.followers.has(frame.session_id) && !NEWS.has(frame.type))
      this.followers.get(frame.session_id)?.take(frame);
    else this.onNews(frame);
  }

  private ready(said: Record<string, unknown>): void {
    this.open = true;
    this.tries = 0;
    this.version = String(said.version ?? "");
    this.say({ op: "watch" });
    if (this.focus !== null) this.say({ op: "focus", session_id: this.focus });
    for (const [sessionId, follower] of this.followers) this.subscribe(sessionId, follower);
    this.onChange();
  }

  private answered(said: Record<string, unknown>): void {
    const waiting = this.waiting.get(said.id as number);
    this.waiting.delete(said.id as number);
    waiting?.done({ status: said.status as number, body: said.body });
  }

  /** An error about a session is its follower's; one about a request ends that. */
  private failed(said: Record<string, unknown>): void {
    const waiting = this.waiting.get(said.id as number);
    this.waiting.delete(said.id as number);
    waiting?.done({ status: (said.status as number) ?? 400, body: said });
    const sessionId = said.session_id as string | undefined;
    if (sessionId) this.followers.get(sessionId)?.take({ type: "error", session_id: sessionId, data: said });
  }

  private lost(socket: WebSocket, code: number): void {
    if (this.socket !== socket) return;
    this.socket = null;
    this.open = false;
    clearTimeout(this.doctor);
    for (const { fail } of this.waiting.values()) fail(new Offline());
    this.waiting.clear();
    this.onChange();
    if (code === 4401) return this.onSignedOut();
    if (this.stopped) return;
    this.again = setTimeout(() => this.connect(), Math.min(LATEST_MS, SOONEST_MS * 2 ** this.tries++));
  }

  /** A laptop that slept has a socket that looks open: silence is answered with a question, and no answer with a new socket. */
  private listen(): void {
    clearTimeout(this.doctor);
    this.doctor = setTimeout(() => {
      const { socket } = this;
      this.request("GET", "/v1/health").catch(() => {});
      this.doctor = setTimeout(() => {
        if (socket === null || this.socket !== socket) return;
        socket.close();
        this.lost(socket, 1006);
      }, PATIENCE_MS);
    }, SILENCE_MS);
  }
}

const NEWS = new Set(["session_changed", "session_removed", "draft_changed", "notify", "watching"]);
