/**
 * What a person says while an agent works: at once, in its turn, or instead of what runs.
 *
 * Without a durable queue the messages that wait are kept here. With one (`accessor.queue`) that queue is shown as it is and every change
 * goes there: two clients see the same, nothing is flushed from here, and what was removed does not run.
 */

import type {
  ChatError,
  ClientSeam,
  Content,
  DurableQueue,
  ExecutionEndEvent,
  FlushMode,
  Message,
  MessageRefusedEvent,
  MessageSteeringOptions,
  MessageSteeringState,
  QueueItem,
  SessionAccessor,
  SteeringMode,
  StreamEvent,
} from "./chat-types.js";
import { Store } from "./store.js";

const STOPPED = new Set<string | undefined>(["error", "limit", "cancelled", "interrupted"]);

export function userMessage(text: Content): Message {
  return { role: "user", content: typeof text === "string" ? [{ type: "text", text }] : text };
}

/** The words of a content, without what else is in it. */
export function textOf(content: Content): string {
  if (typeof content === "string") return content;
  return content.map(block => (block.type === "text" ? (block.text ?? "") : "")).join("");
}

/** Mode `steer` sends at once; mode `queue` keeps what comes while an execution runs. `steer` and `queue` say it for one message. */
export class MessageSteering extends Store<MessageSteeringState> {
  readonly #client: ClientSeam;
  readonly #sessionId: string | undefined;
  readonly #accessor: SessionAccessor | undefined;
  readonly #durable: DurableQueue | undefined;
  readonly #flushMode: FlushMode;
  readonly #autoFlush: boolean;
  #mode: SteeringMode;
  #isExecuting = false;
  /** Something was sent while idle, and its execution has not begun: in mode `queue` the next one waits already. */
  #isStarting = false;
  #queue: readonly QueueItem[] = [];
  /** As the snapshot shows them. */
  #items: readonly QueueItem[] = [];
  readonly #sent = new Set<string>();
  #error: ChatError | null = null;
  #acting = false;

  constructor(client: ClientSeam, options: MessageSteeringOptions = {}) {
    super();
    this.#client = client;
    this.#sessionId = options.sessionId;
    this.#accessor = options.sessionId ? client.session(options.sessionId) : undefined;
    this.#durable = this.#accessor?.queue;
    this.#mode = options.mode ?? "steer";
    this.#flushMode = options.flushMode ?? "sequential";
    this.#autoFlush = options.autoFlush ?? true;
    this.snapshot = this.takeSnapshot();
    if (options.subscribe !== false && this.#accessor !== undefined) this.#subscribe(this.#accessor);
  }

  #subscribe(accessor: SessionAccessor): void {
    this.ends = [accessor.onEvent(event => this.processEvent(event)), () => accessor.unsubscribe?.()];
    if (this.#durable !== undefined) this.ends.push(this.#durable.onChange(() => this.processQueue()));
    accessor.subscribe?.();
  }

  get queued(): readonly Message[] {
    return this.snapshot.queued;
  }

  get isExecuting(): boolean {
    return this.snapshot.isExecuting;
  }

  get mode(): SteeringMode {
    return this.snapshot.mode;
  }

  get error(): ChatError | null {
    return this.snapshot.error;
  }

  // --- what a person does ------------------------------------------------------------------------------------------------------

  /** Send it, or keep it where an execution runs and the mode says so. Whether it was sent. */
  submit(text: Content): boolean {
    if (this.#mode === "queue" && (this.#isExecuting || this.#isStarting)) {
      this.queue(text);
      return false;
    }
    // in mode `queue` another client may have been quicker: the daemon then queues it
    this.#send([userMessage(text)], this.#durable !== undefined && this.#mode === "queue" ? "queue" : undefined);
    this.#forgetError();
    return true;
  }

  /** Send it, whatever the mode is. */
  steer(text: Content): void {
    this.#send([userMessage(text)]);
    this.#forgetError();
  }

  /** Keep it. On a durable queue its turn begins by itself. */
  queue(text: Content): void {
    this.#inOneChange(() => {
      if (this.#durable === undefined) this.#queue = [...this.#queue, { id: null, message: userMessage(text), paused: false }];
      else this.#noteSent(this.#durable.add(userMessage(text)));
    });
  }

  /** Stop what runs and send this instead: both happen at once, what this returns can be awaited for the answer. */
  async interrupt(text: Content): Promise<unknown> {
    const input = { messages: [userMessage(text)] };
    const handle = this.#accessor === undefined ? this.#client.send(input) : this.#accessor.interrupt(input);
    this.#noteSent(handle);
    this.#forgetError();
    return handle;
  }

  /** Send what waits: the first message, or all of it in one piece. A durable queue is resumed, or its items steer what runs. */
  flush(): void {
    if (this.#items.length > 0) this.#inOneChange(() => this.#flush());
  }

  /** Take out the message that stands at `index` of `queued`; out of range does nothing. */
  removeQueued(index: number): void {
    const item = this.#items[index];
    if (item === undefined) return;
    this.#inOneChange(() => {
      if (this.#durable === undefined) this.#queue = this.#queue.filter(other => other !== item);
      else this.#durable.remove(item);
    });
  }

  clearQueued(): void {
    this.#inOneChange(() => {
      if (this.#durable === undefined) this.#queue = [];
      else this.#durable.clear();
    });
  }

  /** Forget what is kept here alone; a durable queue is everybody's and stays. */
  clearKept(): void {
    if (this.#durable === undefined) this.clearQueued();
  }

  setMode(mode: SteeringMode): void {
    this.#inOneChange(() => {
      this.#mode = mode;
    });
  }

  // --- what happens ------------------------------------------------------------------------------------------------------------

  /** Take the next event; tells once if it is one that matters here. */
  processEvent(event: StreamEvent): void {
    if (event.type === "execution_start") {
      this.#isExecuting = true;
      this.#isStarting = false;
    } else if (event.type === "execution_end") {
      this.#isExecuting = this.#isStarting = false;
      if (this.#autoFlush && this.#durable === undefined && !wasStopped(event)) this.#flush();
    } else if (event.type === "session_restored") {
      this.#isExecuting = event.executionId !== null;
      this.#isStarting = false;
    } else if (event.type === "message_refused" && this.#isMine(event)) {
      this.#isStarting = false;
      this.#error = { code: event.code, message: event.message, text: event.text };
    } else return;
    this.changed();
  }

  /** Look at the durable queue again; whether it is another one than the state shows. */
  processQueue(): boolean {
    if (this.#acting || this.#durable === undefined || same(this.#durable.items, this.#items)) return false;
    this.changed();
    return true;
  }

  #flush(): void {
    if (this.#durable !== undefined) this.#flushDurable(this.#durable);
    else if (this.#queue.length > 0) {
      const count = this.#flushMode === "batched" ? this.#queue.length : 1;
      this.#send(this.#queue.slice(0, count).map(item => item.message)); // what could not be sent is still there
      this.#queue = this.#queue.slice(count);
    }
  }

  #flushDurable(queue: DurableQueue): void {
    const [first] = this.#items;
    if (this.#flushMode === "batched") for (const item of this.#items) queue.promote(item);
    else if (this.#isExecuting && first !== undefined) queue.promote(first);
    else queue.resume();
  }

  #send(messages: Message[], delivery?: "queue"): void {
    const sessionId = this.#sessionId;
    if (!sessionId) this.#noteSent(this.#client.send({ messages }));
    else this.#noteSent(this.#client.send({ messages }, delivery === undefined ? { sessionId } : { sessionId, delivery }));
    this.#isStarting = Boolean(sessionId) && !this.#isExecuting;
  }

  #noteSent(handle: unknown): void {
    const id = (handle as { clientMessageId?: unknown } | null | undefined)?.clientMessageId;
    if (typeof id === "string") this.#sent.add(id);
  }

  /** A refusal is told to all; it concerns whoever sent the text. */
  #isMine(event: MessageRefusedEvent): boolean {
    return event.clientMessageId === undefined || this.#sent.has(event.clientMessageId);
  }

  /** Whoever sends again has seen it. */
  #forgetError(): void {
    if (this.#error === null) return;
    this.#error = null;
    this.changed();
  }

  /** What a person does is told once, however many parts of a durable queue change. */
  #inOneChange(act: () => void): void {
    this.#error = null;
    this.#acting = true;
    try {
      act();
    } finally {
      this.#acting = false;
    }
    this.changed();
  }

  protected takeSnapshot(): MessageSteeringState {
    this.#items = this.#durable === undefined ? this.#queue : this.#durable.items;
    const queued = this.#items.map(item => item.message);
    return { queued, isExecuting: this.#isExecuting, mode: this.#mode, error: this.#error };
  }
}

/** Nobody wants the next message to be sent because the last one failed or was stopped. */
function wasStopped(event: ExecutionEndEvent): boolean {
  return Boolean(event.aborted || event.error) || STOPPED.has(event.stopReason);
}

/** Items compare by what they say: a mirrored queue makes them anew each time it is looked at. */
function same(one: readonly QueueItem[], other: readonly QueueItem[]): boolean {
  return one === other || (one.length === other.length && one.every((item, place) => equal(item, other[place])));
}

function equal(one: QueueItem, other: QueueItem | undefined): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
