/** The list of sessions: asked for once, then kept by what the socket tells. */

import { useSyncExternalStore } from "react";
import type { SessionRow } from "../shapes";
import { useConnected } from "./connection";
import type { Daemon } from "./daemon";

const PAGE = 100;

export interface Listed {
  sessions: readonly SessionRow[];
  more: (() => void) | null;
  loaded: boolean;
}

export class Sessions {
  private readonly rows = new Map<string, SessionRow>();
  private cursor: string | null = null;
  private loaded = false;
  private listed: Listed = { sessions: [], more: null, loaded: false };
  private hidden = new Set<string>();
  private readonly listeners = new Set<() => void>();

  constructor(private readonly daemon: Daemon) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): Listed => this.listed;

  row(id: string): SessionRow | undefined {
    return this.rows.get(id);
  }

  /** The newest page; after a reconnect it takes the place of what is here. */
  async load(): Promise<void> {
    const answer = await this.daemon.ask<{ sessions: SessionRow[]; next_cursor: string | null }>("GET", `/v1/sessions?limit=${PAGE}`);
    this.rows.clear();
    for (const row of answer.sessions) this.rows.set(row.id, row);
    this.cursor = answer.next_cursor;
    this.loaded = true;
    this.changed();
  }

  private async loadMore(): Promise<void> {
    const query = `limit=${PAGE}&cursor=${encodeURIComponent(this.cursor ?? "")}`;
    const answer = await this.daemon.ask<{ sessions: SessionRow[]; next_cursor: string | null }>("GET", `/v1/sessions?${query}`);
    for (const row of answer.sessions) if (!this.rows.has(row.id)) this.rows.set(row.id, row);
    this.cursor = answer.next_cursor;
    this.changed();
  }

  put(row: SessionRow): void {
    this.rows.set(row.id, { ...this.rows.get(row.id), ...row });
    this.changed();
  }

  drop(id: string): void {
    if (this.rows.delete(id)) this.changed();
  }

  /** Out of sight while its deletion can still be taken back. */
  hide(id: string, hidden: boolean): void {
    if (hidden) this.hidden.add(id);
    else this.hidden.delete(id);
    this.changed();
  }

  private changed(): void {
    const sessions = [...this.rows.values()].filter(row => !this.hidden.has(row.id));
    sessions.sort((a, b) => (a.updated_at < b.updated_at ? 1 : a.updated_at > b.updated_at ? -1 : 0));
    this.listed = { sessions, more: this.cursor ? () => void this.loadMore() : null, loaded: this.loaded };
    for (const listener of this.listeners) listener();
  }
}

export function useSessions(): Listed {
  const { sessions } = useConnected();
  return useSyncExternalStore(sessions.subscribe, sessions.get);
}
