/** Everything of the page that lives as long as somebody is signed in: the socket, the list, the drafts, the outbox. */

import { createContext, useContext, useMemo, useSyncExternalStore } from "react";
import type { SessionRow } from "../shapes";
import { type Daemon, Offline, Refusal } from "./daemon";
import { type Attachment, Draft } from "./drafts";
import { Outbox, type Sending } from "./outbox";
import { LiveSession } from "./session";
import { Sessions } from "./sessions";
import { type Frame, Wire } from "./wire";

/** Sessions that stay loaded after their person went elsewhere. */
const WARM = 3;

export interface Link {
  open: boolean;
  /** Since when it is not, in the clock of this window. */
  lostAt: number | null;
  version: string | null;
}

export class Connected {
  readonly wire: Wire;
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  readonly outbox: Outbox;
  onNotify: (notice: { id: string; kind: string; session_id: string; title: string; text: string }) => void = () => {};
  private readonly drafts = new Map<string, Draft>();
  private readonly live = new Map<string, LiveSession>();
  private link: Link = { open: false, lostAt: null, version: null };
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly token: () => string | null,
    onSignedOut: () => void,
  ) {
    this.wire = new Wire(`ws://${location.host}/v1/ws`, token);
    this.daemon = { ask: (method, path, body) => this.ask(method, path, body), file: path => this.file(path) };
    this.sessions = new Sessions(this.daemon);
    this.outbox = new Outbox(this.daemon);
    this.wire.onSignedOut = onSignedOut;
    this.wire.onChange = () => this.changed();
    this.wire.onNews = frame => this.news(frame);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): Link => this.link;

  draft(sessionId: string): Draft {
    let draft = this.drafts.get(sessionId);
    if (!draft) {
      draft = new Draft(this.daemon, sessionId);
      this.drafts.set(sessionId, draft);
    }
    return draft;
  }

  /** A session, and the few that were looked at before it. */
  session(id: string, at: number | null): LiveSession {
    const key = at === null ? id : `${id}@${at}`;
    const known = this.live.get(key) ?? new LiveSession(id, this.daemon, this.wire, at);
    this.live.delete(key);
    this.live.set(key, known);
    for (const [old, session] of [...this.live].slice(0, -WARM)) {
      session.stop();
      this.live.delete(old);
    }
    void known.start();
    return known;
  }

  /** A file beside a message: stored first, then named. Files do not go over the socket. */
  async upload(sessionId: string, file: File): Promise<Attachment> {
    const form = new FormData();
    form.append("file", file, file.name);
    const answer = await this.fetch(`/v1/sessions/${sessionId}/attachments`, { method: "POST", body: form });
    return (await answer.json()) as Attachment;
  }

  private async ask<T>(method: string, path: string, body?: unknown): Promise<T> {
    const answer = await this.wire.request(method, path, body);
    if (answer.status >= 400) throw refusal(answer.status, answer.body);
    return answer.body as T;
  }

  private async file(path: string): Promise<Blob> {
    return (await this.fetch(path, {})).blob();
  }

  private async fetch(path: string, options: RequestInit): Promise<Response> {
    const answer = await fetch(path, { ...options, headers: { authorization: `Bearer ${this.token()}` } }).catch(() => {
      throw new Offline();
    });
    if (!answer.ok) throw refusal(answer.status, await answer.json().catch(() => ({})));
    return answer;
  }

  private changed(): void {
    const { open, version } = this.wire;
    this.link = { open, version, lostAt: open ? null : (this.link.lostAt ?? performance.now()) };
    if (open) {
      void this.sessions.load().catch(ignoreOffline);
      void this.outbox.flush();
      for (const draft of this.drafts.values()) void draft.mirror();
      for (const session of this.live.values()) void session.start();
    }
    for (const listener of this.listeners) listener();
  }

  private news(frame: Frame): void {
    const { data } = frame;
    switch (frame.type) {
      case "session_changed": {
        const row = data.session as SessionRow;
        this.sessions.put(row);
        this.live.get(row.id)?.patch(row);
        break;
      }
      case "session_removed":
        this.sessions.drop(data.session_id as string);
        break;
      case "draft_changed":
        this.drafts.get(data.session_id as string)?.take(data as unknown as { text: string; attachments: Attachment[]; rev: number });
        break;
      case "notify":
        this.onNotify(data as unknown as Parameters<Connected["onNotify"]>[0]);
    }
  }
}

function refusal(status: number, body: unknown): Refusal {
  const said = (body ?? {}) as Record<string, unknown>;
  const errors = (said.errors ?? []) as { path: string; message: string }[];
  const detail = String(said.detail ?? said.title ?? `The daemon answered ${status}`);
  return new Refusal(status, String(said.code ?? status), [detail, ...errors.map(one => one.message)].join(" "), said);
}

function ignoreOffline(error: unknown): void {
  if (!(error instanceof Offline)) throw error;
}

export const ConnectedContext = createContext<Connected | null>(null);

export function useConnected(): Connected {
  const connected = useContext(ConnectedContext);
  if (connected === null) throw new Error("Nobody is signed in");
  return connected;
}

export function useConnection(): Link {
  const connected = useConnected();
  return useSyncExternalStore(connected.subscribe, connected.get);
}

export function useFiles(): Pick<Connected, "upload"> {
  return useConnected();
}

export function useOutbox(sessionId: string): { items: readonly Sending[]; outbox: Outbox; online: boolean } {
  const { outbox } = useConnected();
  const { open } = useConnection();
  const all = useSyncExternalStore(outbox.subscribe, outbox.get);
  const items = useMemo(() => all.filter(item => item.sessionId === sessionId), [all, sessionId]);
  return { items, outbox, online: open };
}
