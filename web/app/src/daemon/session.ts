/** One session as the page shows it: the client's transcript of it, with what the page adds: what waits since when, and what the model's window holds. */

import { type Client, type Follower, type Page, Transcript, type TranscriptState } from "@palaver/client";
import { type ContextUsage, NOTHING_OPEN, type OpenNow } from "../app/here";
import type { Tail } from "../blocks/tail";
import type { Entry, SessionRow } from "../shapes";

const PAGE = 100;
const LOOK_BACK = 300;

export interface View {
  entries: readonly Entry[];
  open: OpenNow;
  /** By the id of a message or a call. */
  tails: Readonly<Record<string, Tail>>;
  session: SessionRow | null;
  /** Whether there is more before what is here. */
  earlier: boolean;
  /** Whether what is here ends before the log does: only after a jump. */
  later: boolean;
  /** Entries that were put before the first ones since this part of the log is shown. */
  prepended: number;
  /** Another part of the log is another one. */
  part: number;
  loaded: boolean;
  error: string | null;
  gone: boolean;
}

const EMPTY: View = {
  entries: [],
  open: NOTHING_OPEN,
  tails: {},
  session: null,
  earlier: false,
  later: false,
  prepended: 0,
  part: 0,
  loaded: false,
  error: null,
  gone: false,
};

export class LiveSession {
  private view: View = EMPTY;
  private row: SessionRow | null = null;
  private transcript: Transcript | null = null;
  private usage: ContextUsage | null = null;
  private readonly usageListeners = new Set<(usage: ContextUsage) => void>();
  private readonly asked = new Map<string, string>();
  private readonly listeners = new Set<() => void>();
  private lastTails: TranscriptState["tails"] = {};

  constructor(
    readonly id: string,
    private readonly client: Client,
    /** An event number at which the past is shown; nothing is followed then. */
    private readonly at: number | null = null,
  ) {}

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): View => this.view;

  askedAt = (askId: string): string | undefined => this.asked.get(askId);

  onUsage = (tell: (usage: ContextUsage) => void): (() => void) => {
    this.usageListeners.add(tell);
    if (this.usage) tell(this.usage);
    return () => this.usageListeners.delete(tell);
  };

  get headSeq(): number {
    return this.transcript?.state.page?.as_of_seq ?? 0;
  }

  start(): void {
    if (this.at !== null) return void this.loadPast();
    if (this.transcript !== null) return;
    this.transcript = new Transcript(
      { follow: (id, follower) => this.client.follow(id, this.overheard(follower)), request: (...asked) => this.client.request(...asked) },
      { sessionId: this.id, limit: PAGE },
    );
    this.transcript.onStateChange(() => this.changed());
    void this.loadUsage();
  }

  /** What the window held last is in no block: the newest events may say it. Whatever comes says it anew. */
  private async loadUsage(): Promise<void> {
    try {
      const path = `/v1/sessions/${this.id}`;
      const { head_seq } = await this.client.request<SessionRow>("GET", path);
      const query = { format: "json", after: Math.max(0, head_seq - LOOK_BACK), limit: LOOK_BACK };
      const { events } = await this.client.request<{ events: { type: string; data: ContextUsage }[] }>(
        "GET",
        `${path}/events`,
        undefined,
        query,
      );
      const last = events.findLast(event => event.type === "context_usage");
      if (last && this.usage === null) this.tellUsage(last.data);
    } catch {
      // Without it the meter waits for the next turn.
    }
  }

  private tellUsage(usage: ContextUsage): void {
    this.usage = usage;
    for (const tell of this.usageListeners) tell(usage);
  }

  stop(): void {
    this.transcript?.destroy();
    this.transcript = null;
  }

  /** The page before the first entry that is here. */
  loadEarlier = async (): Promise<void> => {
    if (this.at !== null) return this.loadPast(this.pastEarlier);
    const had = this.view.entries.length;
    const first = this.view.entries[0];
    if (!(await this.transcript?.loadEarlier())) return;
    const place = this.view.entries.indexOf(first as Entry);
    this.become({ prepended: this.view.prepended + (place >= 0 ? place : this.view.entries.length - had) });
  };

  loadLater = async (): Promise<void> => {
    await this.transcript?.loadLater();
  };

  /** A message, wherever it stands: the part of the log around it where it is not here. */
  async reach(messageId: string): Promise<void> {
    if (this.view.entries.some(entry => entry.message?.id === messageId)) return;
    await this.transcript?.jump(messageId);
    this.become({ prepended: 0, part: this.view.part + 1 });
  }

  /** Back from a jump. */
  async latest(): Promise<void> {
    if (!this.view.later) return;
    await this.transcript?.latest();
    this.become({ prepended: 0, part: this.view.part + 1 });
  }

  /** News of the list, which knows more of a session than its own stream says. */
  patch(row: SessionRow): void {
    this.row = { ...this.row, ...row };
    this.note(row);
    if (this.view.loaded) this.changed();
  }

  /** What passes to the transcript, heard on its way. */
  private overheard(follower: Follower): Follower {
    return {
      get after() {
        return follower.after;
      },
      set after(seq) {
        follower.after = seq;
      },
      take: envelope => {
        const { type, data, ts } = envelope;
        if (type === "approval_requested") this.asked.set(String(data.approval_id), ts);
        if (type === "question_asked") this.asked.set(String(data.question_id), ts);
        if (type === "hello" && data.session) this.note(data.session as SessionRow);
        if (type === "context_usage") this.tellUsage(data as unknown as ContextUsage);
        follower.take(envelope);
      },
      begin: () => follower.begin(),
      fail: error => follower.fail(error),
    };
  }

  private note(session: SessionRow): void {
    for (const item of session.waiting ?? []) this.asked.set(item.id, item.requested_at);
  }

  private changed(): void {
    const state = this.transcript?.state;
    if (!state) return;
    const { page, error } = state;
    this.become({
      ...(page ? this.shown(page) : {}),
      tails: this.tails(state),
      session: this.session(state),
      later: !state.isLatest,
      loaded: (page !== null && state.session !== null) || error !== null,
      error: error && error.code !== "deleted" ? error.message : null,
      gone: error?.code === "not_found" || error?.code === "deleted",
    });
  }

  private shown(page: Page): Partial<View> {
    const open = page.open as unknown as OpenNow;
    return {
      entries: page.entries as unknown as readonly Entry[],
      open: sameOpen(this.view.open, open),
      earlier: page.earlier !== null,
    };
  }

  /** The session's own stream for what it says, the list's news for the rest. */
  private session(state: TranscriptState): SessionRow | null {
    const { session, queue } = state;
    if (session === null) return this.view.session;
    const before = this.merged;
    if (before?.of === session && before.row === this.row && before.queue === queue) return before.made;
    const own = session as unknown as SessionRow;
    const extra = this.row && this.row.head_seq >= own.head_seq ? this.row : pick(this.row);
    const made = { ...own, ...extra, queue: queue as unknown as NonNullable<SessionRow["queue"]> };
    this.merged = { of: session, row: this.row, queue, made };
    return made;
  }

  private merged: { of: unknown; row: SessionRow | null; queue: unknown; made: SessionRow } | null = null;

  private tails(state: TranscriptState): View["tails"] {
    if (state.tails === this.lastTails) return this.view.tails;
    const before = this.lastTails;
    this.lastTails = state.tails;
    return Object.fromEntries(
      Object.entries(state.tails).map(([owner, tails]) => [
        owner,
        before[owner] === tails && this.view.tails[owner]
          ? this.view.tails[owner]
          : Object.fromEntries(tails.map(({ part, kind, text }) => [part, { kind, text }])),
      ]),
    );
  }

  private become(fields: Partial<View>): void {
    this.view = { ...this.view, ...fields };
    for (const listener of this.listeners) listener();
  }

  // --- the past -----------------------------------------------------------------------------------------------------------------

  private pastEarlier: string | null = null;

  private async loadPast(before: string | null = null): Promise<void> {
    if (before === null && this.view.loaded) return;
    const path = `/v1/sessions/${this.id}`;
    try {
      const page = await this.client.request<Page>("GET", `${path}/transcript`, undefined, { at: this.at, limit: PAGE, before });
      const session = this.view.session ?? (await this.client.request<SessionRow>("GET", path));
      const older = page.entries as unknown as readonly Entry[];
      this.pastEarlier = page.earlier;
      this.become({
        ...this.shown(page),
        entries: before === null ? older : [...older, ...this.view.entries],
        prepended: before === null ? 0 : this.view.prepended + older.length,
        session,
        loaded: true,
      });
    } catch (error) {
      this.become({ loaded: true, error: error instanceof Error ? error.message : String(error) });
    }
  }
}

/** What the list alone knows. */
function pick(row: SessionRow | null): Partial<SessionRow> {
  if (row === null) return {};
  const { unread, activity, last_turn, children_running, git } = row;
  return {
    ...(git ? { git } : {}),
    ...(activity ? { activity } : {}),
    ...(last_turn ? { last_turn } : {}),
    ...(unread ? { unread } : {}),
    ...(children_running ? { children_running } : {}),
  };
}

/** The same object until what waits or runs is another: how far texts have grown is not shown by it. */
function sameOpen(before: OpenNow, now: OpenNow): OpenNow {
  if (before.turn === now.turn && before.approvals === now.approvals && before.questions === now.questions) return before;
  return { turn: now.turn, approvals: now.approvals, questions: now.questions };
}
