/** Everything of the page that lives as long as somebody is signed in: the socket, the list, the drafts, the outbox. */

import { type Client, createClient, PalaverError, type WatchFrame } from "@palaver/client";
import { createContext, useContext, useMemo, useSyncExternalStore } from "react";
import type { SessionRow } from "../shapes";
import { type Daemon, Offline, Refusal } from "./daemon";
import { type Attachment, Draft } from "./drafts";
import { Outbox, type Sending } from "./outbox";
import { LiveSession } from "./session";
import { Sessions } from "./sessions";

/** Sessions that stay loaded after their person went elsewhere. */
const WARM = 3;

export interface Link {
  open: boolean;
  version: string | null;
}

export class Connected {
  readonly client: Client;
  readonly daemon: Daemon;
  readonly sessions: Sessions;
  readonly outbox: Outbox;
  onNotify: (notice: { id: string; kind: string; session_id: string; title: string; text: string }) => void = () => {};
  private readonly drafts = new Map<string, Draft>();
  private readonly live = new Map<string, LiveSession>();
  private link: Link = { open: false, version: null };
  private ends: (() => void)[] = [];
  private readonly listeners = new Set<() => void>();

  constructor(
    token: string | null,
    private readonly signedOut: () => void,
  ) {
    this.client = createClient({ url: location.origin, token: token ?? undefined });
    this.daemon = { ask: (method, path, body) => this.ask(method, path, body), file: path => this.file(path) };
    this.sessions = new Sessions(this.daemon);
    this.outbox = new Outbox(this.daemon);
  }

  /** Reaches for the daemon, and again whenever there is hope. The answer ends it. */
  begin(): () => void {
    const hurry = () => document.hidden || this.client.reconnect();
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", hurry);
    this.ends = [
      this.client.onConnectionChange(() => this.changed()),
      this.client.watch(frame => this.news(frame)),
      () => window.removeEventListener("online", hurry),
      () => document.removeEventListener("visibilitychange", hurry),
    ];
    return () => {
      for (const end of this.ends) end();
      for (const session of this.live.values()) session.stop();
      this.live.clear();
    };
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
    const known = this.live.get(key) ?? new LiveSession(id, this.client, at);
    this.live.delete(key);
    this.live.set(key, known);
    for (const [old, session] of [...this.live].slice(0, -WARM)) {
      session.stop();
      this.live.delete(old);
    }
    known.start();
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
    try {
      return await this.client.request<T>(method, path, body);
    } catch (error) {
      throw asOurs(error);
    }
  }

  private async file(path: string): Promise<Blob> {
    return (await this.fetch(path, {})).blob();
  }

  private async fetch(path: string, options: RequestInit): Promise<Response> {
    const answer = await this.client.fetch(path, options).catch(error => {
      throw asOurs(error);
    });
    if (!answer.ok) throw refusal(answer.status, await answer.json().catch(() => ({})));
    return answer;
  }

  private changed(): void {
    const { state, version, error } = this.client.connectionState;
    const open = state === "open";
    if (state === "closed" && error?.code !== "client_closed") return this.signedOut();
    if (open !== this.link.open || version !== this.link.version) {
      this.link = { open, version };
      if (open) {
        void this.outbox.flush();
        for (const draft of this.drafts.values()) void draft.mirror();
      }
      for (const listener of this.listeners) listener();
    }
  }

  private news({ type, data }: WatchFrame): void {
    switch (type) {
      case "watching":
        this.sessions.load().catch(ignoreOffline);
        break;
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

/** The client's errors as the page's own: nobody answered, or somebody said no. */
function asOurs(error: unknown): Error {
  if (!(error instanceof PalaverError)) return error instanceof Error ? error : new Error(String(error));
  if (error.code === "unreachable" || error.code === "client_closed") return new Offline();
  return refusal(Number(error.extra.status ?? 400), { ...error.extra, code: error.code, detail: error.message });
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
