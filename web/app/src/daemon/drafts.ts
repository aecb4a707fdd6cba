/**
 * What somebody is writing, by session. It is kept in this browser with every key and mirrored to the daemon a moment later, so that it
 * survives a reload, a switch, a lost connection and a change of the machine. A text that is newer here is never replaced unasked.
 */

import { type Daemon, Refusal } from "./daemon";

export interface Attachment {
  ref: string;
  name: string;
  mime_type: string;
  size: number;
}

export interface DraftState {
  text: string;
  attachments: Attachment[];
  /** What somebody wrote elsewhere meanwhile, while this one was not empty. */
  other: { text: string; attachments: Attachment[]; rev: number } | null;
}

const MIRROR_MS = 600;
const EMPTY: DraftState = { text: "", attachments: [], other: null };

export class Draft {
  state: DraftState = EMPTY;
  private rev = 0;
  private dirty = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly listeners = new Set<() => void>();

  constructor(
    private readonly daemon: Daemon,
    private readonly sessionId: string,
  ) {
    const kept = read(sessionId);
    if (kept) {
      this.state = { ...EMPTY, text: kept.text, attachments: kept.attachments };
      this.rev = kept.rev;
      this.dirty = kept.dirty;
    }
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get = (): DraftState => this.state;

  get currentRev(): number {
    return this.rev;
  }

  /** Its person typed, or put a file beside it. */
  write(change: Partial<Pick<DraftState, "text" | "attachments">>): void {
    this.dirty = true;
    this.become({ ...this.state, ...change });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.mirror(), MIRROR_MS);
  }

  /** It was sent: the daemon cleared its copy in the same command. */
  clear(): void {
    clearTimeout(this.timer);
    this.dirty = false;
    this.rev += 1;
    this.become(EMPTY);
  }

  /** What the daemon has, at the start or because somebody wrote elsewhere. */
  take(theirs: { text: string; attachments?: Attachment[]; rev: number }): void {
    if (theirs.rev < this.rev) return;
    const attachments = theirs.attachments ?? [];
    const same = theirs.text === this.state.text && attachments.length === this.state.attachments.length;
    if (same || !this.dirty) {
      this.rev = theirs.rev;
      this.dirty = false;
      this.become({ text: theirs.text, attachments, other: null });
    } else if (theirs.text !== "" || attachments.length > 0) {
      this.become({ ...this.state, other: { text: theirs.text, attachments, rev: theirs.rev } });
    } else {
      this.rev = theirs.rev;
    }
  }

  /** Which of two texts it is to be. */
  choose(theirs: boolean): void {
    const { other } = this.state;
    if (!other) return;
    this.rev = other.rev;
    this.dirty = !theirs;
    this.become(theirs ? { text: other.text, attachments: other.attachments, other: null } : { ...this.state, other: null });
    if (!theirs) void this.mirror();
  }

  async mirror(): Promise<void> {
    if (!this.dirty || this.state.other) return;
    const { text, attachments } = this.state;
    try {
      const { rev } = await this.daemon.ask<{ rev: number }>("PUT", `/v1/sessions/${this.sessionId}/draft`, {
        text,
        attachments,
        rev: this.rev,
      });
      this.rev = Math.max(this.rev, rev);
      if (text === this.state.text && attachments === this.state.attachments) this.dirty = false;
      this.keep();
    } catch (error) {
      // Offline: it is kept here, and mirrored when the connection is back. A conflict brings the other text along.
      if (error instanceof Refusal && error.code === "draft_conflict") this.take(stored(error.body));
    }
  }

  private become(state: DraftState): void {
    this.state = state;
    this.keep();
    for (const listener of this.listeners) listener();
  }

  private keep(): void {
    const { text, attachments } = this.state;
    const key = keyOf(this.sessionId);
    if (text === "" && attachments.length === 0 && !this.dirty) localStorage.removeItem(key);
    else localStorage.setItem(key, JSON.stringify({ text, attachments, rev: this.rev, dirty: this.dirty }));
  }
}

const keyOf = (sessionId: string) => `palaver:draft:${sessionId}`;

function read(sessionId: string): { text: string; attachments: Attachment[]; rev: number; dirty: boolean } | null {
  const kept = localStorage.getItem(keyOf(sessionId));
  return kept === null ? null : (JSON.parse(kept) as { text: string; attachments: Attachment[]; rev: number; dirty: boolean });
}

function stored(body: Record<string, unknown>): { text: string; attachments: Attachment[]; rev: number } {
  return (body.draft ?? body) as { text: string; attachments: Attachment[]; rev: number };
}
