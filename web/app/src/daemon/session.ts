/**
 * One session as the page shows it: a page of its transcript, and every event after it, folded by the same function as everywhere.
 *
 * Events are taken at once; who looks is told once a frame, or four times a second where nobody can see it.
 */

import { dropProvisional, Fold, fromPage, type Page, show, showTail, type wire } from "@palaver/client";
import { type ContextUsage, NOTHING_OPEN, type OpenNow } from "../app/here";
import type { Tail } from "../blocks/tail";
import type { Entry, OpenTurn, QueueItem, SessionRow } from "../shapes";
import { type Daemon, Refusal, wordsOf } from "./daemon";
import type { Frame, Wire } from "./wire";

const PAGE = 100;
const HIDDEN_MS = 250;

export interface View {
  entries: readonly Entry[];
  open: OpenNow;
  /** By the id of a message or a call. */
  tails: Readonly<Record<string, Tail>>;
  session: SessionRow | null;
  /** Whether there is more before what is here. */
  earlier: boolean;
  /** Entries that were put before the first ones, since the page was opened. */
  prepended: number;
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
  prepended: 0,
  loaded: false,
  error: null,
  gone: false,
};

export class LiveSession {
  private fold = new Fold();
  private view: View = EMPTY;
  private session: SessionRow | null = null;
  private queue: { items: QueueItem[]; paused: boolean; reason?: string } = { items: [], paused: false };
  private epoch: unknown = null;
  private prepended = 0;
  private loading = false;
  private scheduled = false;
  private unfollow: (() => void) | null = null;
  private readonly asked = new Map<string, string>();
  private usage: ContextUsage | null = null;
  private readonly usageListeners = new Set<(usage: ContextUsage) => void>();
  private readonly listeners = new Set<() => void>();

  constructor(
    readonly id: string,
    private readonly daemon: Daemon,
    private readonly wire: Wire,
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
    return this.fold.asOfSeq;
  }

  /** Loads the newest page and follows from there. Tried again by `retry` when the connection is back. */
  async start(): Promise<void> {
    if (this.loading || this.unfollow) return;
    this.loading = true;
    try {
      const past = this.at === null ? "" : `&at=${this.at}`;
      const [page, session] = await Promise.all([
        this.daemon.ask<Page>("GET", `/v1/sessions/${this.id}/transcript?limit=${PAGE}${past}`),
        this.daemon.ask<SessionRow>("GET", `/v1/sessions/${this.id}`),
      ]);
      this.fold = fromPage(page);
      this.takeSession(session);
      this.change({ loaded: true, error: null });
      if (this.at === null) this.unfollow = this.wire.follow(this.id, { cursor: () => this.fold.asOfSeq, take: this.take });
    } catch (error) {
      if (error instanceof Refusal) this.change({ loaded: true, error: wordsOf(error), gone: error.status === 404 });
    } finally {
      this.loading = false;
    }
  }

  stop(): void {
    this.unfollow?.();
    this.unfollow = null;
  }

  /** The page before the first entry that is here. */
  async loadEarlier(): Promise<void> {
    const { earlier } = this.fold;
    if (earlier === null || this.loading) return;
    this.loading = true;
    try {
      const past = this.at === null ? "" : `&at=${this.at}`;
      const page = await this.daemon.ask<Page>("GET", `/v1/sessions/${this.id}/transcript?before=${earlier}&limit=${PAGE}${past}`);
      const older = fromPage({ ...page, open: { approvals: [], questions: [], parts: [] } });
      const had = this.fold.rows.length;
      this.fold.prepend(older);
      this.prepended += this.fold.rows.length - had;
      this.flush();
    } finally {
      this.loading = false;
    }
  }

  /** Earlier pages until a message is here; false where it is not in this session. */
  async reach(messageId: string): Promise<boolean> {
    while (!this.fold.messages.has(messageId) && this.fold.earlier !== null) await this.loadEarlier();
    return this.fold.messages.has(messageId);
  }

  /** News of the list: what this page knows better stays. */
  patch(row: SessionRow): void {
    if (this.session === null) return;
    this.takeSession({ ...this.session, ...row, queue: this.session.queue as never }, false);
    this.schedule();
  }

  private readonly take = (frame: Frame): void => {
    if (frame.type === "hello") return this.hello(frame);
    if (frame.type === "deleted") return this.change({ gone: true });
    if (frame.type === "gap" || frame.type === "error") return this.begin();
    if (frame.type === "caught_up") return this.schedule();
    if (frame.seq === undefined) showTail(this.fold, frame as unknown as wire.Provisional);
    else if (frame.seq > this.fold.asOfSeq) {
      show(this.fold, frame as unknown as wire.Logged);
      this.note(frame);
    }
    this.schedule();
  };

  private hello(frame: Frame): void {
    const { epoch, session } = frame.data;
    if (this.epoch !== null && epoch !== this.epoch) {
      this.epoch = epoch;
      return this.begin();
    }
    this.epoch = epoch;
    dropProvisional(this.fold);
    if (session) this.takeSession(session as SessionRow);
    this.schedule();
  }

  /** The log is another one, or this page is too old for it. */
  private begin(): void {
    this.stop();
    this.fold = new Fold();
    this.epoch = null;
    void this.start();
  }

  private note(frame: Frame): void {
    const { data } = frame;
    switch (frame.type) {
      case "approval_requested":
        this.asked.set(data.approval_id as string, frame.ts ?? "");
        break;
      case "question_asked":
        this.asked.set(data.question_id as string, frame.ts ?? "");
        break;
      case "queue_changed":
        this.takeQueue(data as unknown as { items: QueueItem[]; paused: boolean; reason?: string });
        break;
      case "context_usage":
        this.usage = data as unknown as ContextUsage;
        for (const tell of this.usageListeners) tell(this.usage);
        break;
      case "session_updated":
        if (this.session) this.session = { ...this.session, ...(data.session as Partial<SessionRow>) };
        break;
      default:
        return;
    }
  }

  private takeSession(session: SessionRow, withQueue = true): void {
    this.session = session;
    for (const item of session.waiting ?? []) this.asked.set(item.id, item.requested_at);
    if (withQueue && session.queue?.items) this.takeQueue(session.queue as { items: QueueItem[]; paused: boolean; reason?: string });
  }

  /** An item's message comes once, with the event that put or changed it there. */
  private takeQueue({ items, paused, reason }: { items: QueueItem[]; paused: boolean; reason?: string }): void {
    const known = new Map(this.queue.items.map(item => [item.id, item.message]));
    const full = items.map(
      item => ({ ...item, message: item.message ?? known.get(item.id) ?? this.messageOf(item.message_id) }) as QueueItem,
    );
    this.queue = { items: full, paused, ...(reason ? { reason } : {}) };
  }

  /** A steer that nobody read becomes an item; its words are in the transcript. */
  private messageOf(id: string): unknown {
    return this.fold.messages.get(id)?.message ?? undefined;
  }

  private schedule(): void {
    if (this.scheduled) return;
    this.scheduled = true;
    if (document.hidden) setTimeout(() => this.flush(), HIDDEN_MS);
    else requestAnimationFrame(() => this.flush());
  }

  private flush(): void {
    this.scheduled = false;
    this.change({});
  }

  private change(fields: Partial<View>): void {
    const { open } = this.fold;
    const page = open.toPage();
    this.view = {
      ...this.view,
      entries: this.fold.entries as unknown as readonly Entry[],
      open: sameOpen(this.view.open, page as unknown as OpenNow),
      tails: tailsOf(this.fold, this.view.tails),
      session: this.shownSession(),
      earlier: this.fold.earlier !== null,
      prepended: this.prepended,
      ...fields,
    };
    for (const listener of this.listeners) listener();
  }

  private lastSession: { of: SessionRow; queue: unknown; made: SessionRow } | null = null;

  private shownSession(): SessionRow | null {
    if (this.session === null) return null;
    if (this.lastSession?.of !== this.session || this.lastSession.queue !== this.queue) {
      this.lastSession = { of: this.session, queue: this.queue, made: { ...this.session, queue: this.queue } };
    }
    return this.lastSession.made;
  }
}

/** The same object until what waits or runs is another: how far texts have grown is not shown by it. */
function sameOpen(before: OpenNow, now: OpenNow): OpenNow {
  const turn: OpenTurn | undefined = now.turn;
  if (before.turn === turn && before.approvals === now.approvals && before.questions === now.questions) return before;
  return { turn, approvals: now.approvals, questions: now.questions };
}

function tailsOf(fold: Fold, before: Readonly<Record<string, Tail>>): Readonly<Record<string, Tail>> {
  if (fold.tails.size === 0 && Object.keys(before).length === 0) return before;
  const found: Record<string, Record<string, { kind: string; text: string }>> = {};
  for (const { owner, part, kind, text } of fold.tails.values()) {
    found[owner] ??= {};
    (found[owner] as Record<string, { kind: string; text: string }>)[part] = { kind, text };
  }
  return found;
}
