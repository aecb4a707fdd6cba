/** A session as a reader sees it, live: the daemon's page, folded on with every event by the fold that made the page. */

import type { ChatError, Unsubscribe } from "./chat-types.js";
import type { Query } from "./connection.js";
import { asError, codeOf, type PalaverError } from "./errors.js";
import type { Envelope, Follower } from "./feed.js";
import { type Fold, fromPage, toPage } from "./fold/fold.js";
import type { Page, Tail } from "./fold/page.js";
import { show } from "./fold/show.js";
import { dropProvisional, showTail } from "./fold/tail.js";
import { nextFrame } from "./frame.js";
import { factsAfter, NO_FACTS, type SessionFacts } from "./session-facts.js";
import { Store } from "./store.js";
import type { Logged, Provisional } from "./wire.gen.js";

/** What a transcript needs of a client. */
export interface TranscriptClient {
  follow(sessionId: string, follower: Follower): Unsubscribe;
  request<T>(method: string, path: string, body?: unknown, query?: Query): Promise<T>;
}

export interface TranscriptOptions {
  sessionId: string;
  /** How many entries are loaded at a time. */
  limit?: number | undefined;
}

export interface TranscriptState extends SessionFacts {
  /** As `GET …/transcript` would answer; null until it is loaded. Entries and blocks that did not change are the same objects. */
  readonly page: Page | null;
  /** Text in flight beyond the page, by `<message>/<part>` or `<call>/<stream>`. */
  readonly provisional: Readonly<Record<string, string>>;
  /** The same by message or call, also of parts that have no block yet: they belong at the end. */
  readonly tails: Readonly<Record<string, readonly Tail[]>>;
  /** Tool inputs that a model is writing, by message: how far they are. */
  readonly inputs: Readonly<Record<string, { readonly name: string; readonly chars: number }>>;
  /** Whether the page ends with the log; after `jump` it may not, until `loadLater` or `latest`. */
  readonly isLatest: boolean;
  /** Why there is no page, or why nothing more comes. */
  readonly error: ChatError | null;
}

const LIMIT = 100;
const TRIES = 10;
const RETRY_MS = 500;

/** The newest `limit` entries and all that follow. Listeners are told at most once a frame; `flush` tells them at once. */
export class Transcript extends Store<TranscriptState> {
  readonly sessionId: string;
  readonly #client: TranscriptClient;
  readonly #limit: number;
  readonly #follower: Follower;
  #fold: Fold | null = null;
  #facts = NO_FACTS;
  #inputs: Record<string, { name: string; chars: number }> = {};
  #tailsShown: Record<string, readonly Tail[]> = {};
  #error: ChatError | null = null;
  #isLatest = true;
  /** Which load is the one that counts: what is on its way of an earlier one comes to nobody. */
  #load = 0;
  #awaited: { seq: number; resolve(reached: boolean): void } | undefined;
  #leave: Unsubscribe | undefined;
  #frame: (() => void) | undefined;

  constructor(client: TranscriptClient, options: TranscriptOptions) {
    super();
    this.sessionId = options.sessionId;
    this.#client = client;
    this.#limit = options.limit ?? LIMIT;
    this.#follower = {
      after: 0,
      take: envelope => this.processEvent(envelope),
      begin: () => void this.#begin({}),
      fail: error => this.#fail(error),
    };
    this.snapshot = this.takeSnapshot();
    this.ends = [() => this.#end()];
    void this.#begin({});
  }

  /** The state now, for `useSyncExternalStore`. */
  readonly getSnapshot = (): TranscriptState => this.snapshot;

  /** Take the next envelope, logged or not. */
  processEvent(envelope: Envelope): void {
    this.#facts = factsAfter(this.#facts, envelope, id => this.#fold?.messages.get(id)?.message ?? undefined);
    if (this.#fold !== null && this.#isLatest) this.#foldIn(this.#fold, envelope);
    this.#touch();
  }

  /** Bring the state up to date now, and tell. */
  flush(): void {
    this.#frame?.();
    this.#frame = undefined;
    this.changed();
  }

  /** Put the entries before the first one in front; false where there are none. */
  async loadEarlier(): Promise<boolean> {
    const load = this.#load;
    for (let left = TRIES; left > 0; left -= 1) {
      const fold = this.#fold;
      if (fold === null || fold.earlier === null) return false;
      const page = await this.#ask({ before: fold.earlier });
      if (load !== this.#load || this.#fold !== fold) return false;
      if (this.#isLatest && !(await this.#reaches(fold, page.as_of_seq))) continue;
      fold.prepend(fromPage(page));
      this.flush();
      return true;
    }
    return false;
  }

  /**
   * Wait until the fold is as old as a page that was asked for beside it. False where it is older already: what happened since belongs to
   * the page's entries too, so it has to be asked for again.
   */
  #reaches(fold: Fold, seq: number): Promise<boolean> {
    if (fold.asOfSeq >= seq) return Promise.resolve(fold.asOfSeq === seq);
    return new Promise(resolve => {
      this.#awaited = { seq, resolve };
    });
  }

  /** After a `jump`: put the entries after the last one behind it; false where the page ends with the log. */
  async loadLater(): Promise<boolean> {
    const load = this.#load;
    const fold = this.#fold;
    if (fold === null || fold.later === null) return false;
    const page = await this.#ask({ after: fold.later });
    if (load !== this.#load || this.#fold !== fold) return false;
    const joined = { ...page, entries: [...fold.entries, ...page.entries], earlier: fold.earlier };
    this.#show(joined);
    return true;
  }

  /** Show what is around a message, wherever it stands. */
  jump(messageId: string): Promise<void> {
    return this.#begin({ around: messageId });
  }

  /** Back to the newest entries. */
  latest(): Promise<void> {
    return this.#begin({});
  }

  // --- loading -------------------------------------------------------------------------------------------------------------------

  async #begin(query: Record<string, string>): Promise<void> {
    this.#load += 1;
    const load = this.#load;
    this.#stopReading();
    try {
      const page = await this.#patiently(load, query);
      if (load === this.#load && page !== undefined) this.#show(page);
    } catch (thrown) {
      if (load === this.#load) this.#fail(asError(thrown));
    }
  }

  /** A daemon that cannot be reached is waited for: the reading that begins with the first page does that too. */
  async #patiently(load: number, query: Record<string, string>): Promise<Page | undefined> {
    for (;;) {
      try {
        return await this.#ask(query);
      } catch (thrown) {
        if (codeOf(thrown) !== "unreachable") throw thrown;
        if (load !== this.#load) return undefined;
        await new Promise(resolve => setTimeout(resolve, RETRY_MS));
        if (load !== this.#load) return undefined;
      }
    }
  }

  #ask(query: Record<string, string>): Promise<Page> {
    const path = `/v1/sessions/${encodeURIComponent(this.sessionId)}/transcript`;
    return this.#client.request<Page>("GET", path, undefined, { ...query, limit: this.#limit });
  }

  #show(page: Page): void {
    this.#fold = fromPage(page);
    this.#error = null;
    this.#inputs = {};
    this.#isLatest = page.later === null;
    this.#stopReading();
    this.#follower.after = page.as_of_seq;
    this.#leave = this.#client.follow(this.sessionId, this.#follower);
    this.flush();
  }

  #stopReading(): void {
    this.#settleAwaited(false);
    this.#leave?.();
    this.#leave = undefined;
  }

  #fail(error: PalaverError): void {
    this.#error = { code: error.code, message: error.message, text: "" };
    this.flush();
  }

  #end(): void {
    this.#load += 1;
    this.#stopReading();
    this.#frame?.();
    this.#frame = undefined;
  }

  // --- folding -------------------------------------------------------------------------------------------------------------------

  #foldIn(fold: Fold, envelope: Envelope): void {
    if (envelope.type === "hello") {
      dropProvisional(fold);
      this.#inputs = {};
    } else if (envelope.seq === undefined) this.#foldTail(fold, envelope);
    else if (envelope.seq > fold.asOfSeq) {
      show(fold, envelope as unknown as Logged); // one of an unknown type only moves the number
      if (this.#awaited !== undefined && fold.asOfSeq >= this.#awaited.seq) this.#settleAwaited(fold.asOfSeq === this.#awaited.seq);
      if (envelope.type === "model_output_completed" || envelope.type === "turn_completed") this.#inputs = {};
    }
  }

  #settleAwaited(reached: boolean): void {
    const awaited = this.#awaited;
    this.#awaited = undefined;
    awaited?.resolve(reached);
  }

  #foldTail(fold: Fold, envelope: Envelope): void {
    if (envelope.type === "tool_input_progress") {
      const { message_id, name, chars } = envelope.data as { message_id: string; name: string; chars: number };
      this.#inputs = { ...this.#inputs, [message_id]: { name, chars } };
    } else showTail(fold, envelope as unknown as Provisional);
  }

  #touch(): void {
    this.#frame ??= nextFrame(() => {
      this.#frame = undefined;
      this.changed();
    });
  }

  protected takeSnapshot(): TranscriptState {
    const fold = this.#fold;
    const page = fold === null ? null : pageOf(this.snapshot?.page ?? null, toPage(fold));
    const tails = [...(fold?.tails ?? [])];
    this.#tailsShown = grouped(
      this.#tailsShown,
      tails.map(([, tail]) => tail),
    );
    return {
      page,
      provisional: Object.fromEntries(tails.map(([key, tail]) => [key, tail.text])),
      tails: this.#tailsShown,
      inputs: this.#inputs,
      isLatest: this.#isLatest,
      error: this.#error,
      ...this.#facts,
    };
  }
}

/** The page as it was, where nothing in it changed: whoever selects it hears of changes alone. */
function pageOf(before: Page | null, now: Page): Page {
  const keys = Object.keys(now) as (keyof Page)[];
  return before !== null && keys.every(key => before[key] === now[key]) ? before : now;
}

function grouped(before: Readonly<Record<string, readonly Tail[]>>, tails: readonly Tail[]): Record<string, readonly Tail[]> {
  const now: Record<string, readonly Tail[]> = {};
  for (const owner of new Set(tails.map(tail => tail.owner))) {
    const own = tails.filter(tail => tail.owner === owner);
    const known = before[owner];
    now[owner] = known?.length === own.length && known.every((tail, place) => tail === own[place]) ? known : own;
  }
  return now;
}
