/** A client without a daemon, for tests of programs that use the primitives: it is told what happens, and keeps what was sent. */

import type {
  ClientSeam,
  ConfirmationHandler,
  DurableQueue,
  EventHandler,
  Message,
  QueueItem,
  Respond,
  SendInput,
  SessionAccessor,
  StreamEvent,
  ToolConfirmationRequest,
  ToolConfirmationResponse,
  Unsubscribe,
} from "./chat-types.js";
import type { Envelope, Follower } from "./feed.js";
import type { Page } from "./fold/page.js";
import { Listeners } from "./store.js";

// biome-ignore lint/suspicious/noExplicitAny: what a spy factory takes is any function, as vi.fn's own type says
export type SpyFactory = <F extends (...args: any[]) => any>(implementation: F) => F;

/** A stream event with all that every event has. */
// biome-ignore lint/suspicious/noExplicitAny: a test may make an event of any shape
export function makeEvent(type: string, fields: Record<string, unknown> = {}): any {
  return { type, id: `evt-${type}`, sequence: 1, timestamp: "2026-01-01T00:00:00.000Z", ...fields };
}

/** A message that arrived. */
export interface MockHandle {
  readonly result: Promise<{ message_id: string; turn_id: string; delivered: "started" }>;
}

export function createMockHandle(): MockHandle {
  return { result: Promise.resolve({ message_id: "msg_mock", turn_id: "turn_mock", delivered: "started" }) };
}

/** A durable queue in memory; `items` can be set, and `changed` called, as another client would. */
export class MockQueue implements DurableQueue {
  items: readonly QueueItem[] = [];
  paused = false;
  promoted: QueueItem[] = [];
  resumed = 0;
  readonly #changes = new Listeners<[]>();
  #number = 0;

  add(message: Message): MockHandle {
    this.#number += 1;
    this.#set([...this.items, { id: `item_${this.#number}`, message, paused: false }]);
    return createMockHandle();
  }

  remove(item: QueueItem): void {
    this.#set(this.items.filter(other => other.id !== item.id));
  }

  clear(): void {
    this.#set([]);
  }

  resume(): void {
    this.resumed += 1;
    this.paused = false;
    this.#set(this.items.slice(1));
  }

  promote(item: QueueItem): void {
    this.promoted.push(item);
    this.remove(item);
  }

  onChange(listener: () => void): Unsubscribe {
    return this.#changes.add(listener);
  }

  changed(): void {
    this.#changes.call();
  }

  #set(items: readonly QueueItem[]): void {
    this.items = items;
    this.changed();
  }
}

export interface MockAccessor extends SessionAccessor {
  subscribe(): void;
  unsubscribe(): void;
  send(input: SendInput): MockHandle;
  abort(): void;
  interrupt(input: SendInput): MockHandle;
  onCanonicalEvent(handler: (envelope: Envelope) => void): Unsubscribe;
  readonly queue?: MockQueue;
  /** How many read it now. */
  readonly subscriptions: number;
  readonly interrupted: SendInput[];
}

export interface MockClient extends ClientSeam {
  send(input: SendInput, options?: { sessionId?: string; delivery?: "queue" }): MockHandle;
  session(id: string): MockAccessor;
  readonly sent: Array<{ input: SendInput; sessionId?: string; delivery?: "queue" }>;
  /** What was answered to confirmations without a `respond`. */
  readonly answered: ToolConfirmationResponse[];
  getAccessor(sessionId: string): MockAccessor;
  /** The events of all sessions. */
  onEvent(handler: EventHandler): Unsubscribe;
  _emitSessionEvent(sessionId: string, event: StreamEvent): void;
  _emitToolConfirmation(sessionId: string, request: ToolConfirmationRequest, respond?: Respond): void;
  /** Answers `GET …/transcript` with `page` and anything else with an empty object. */
  request<T>(method: string, path: string): Promise<T>;
  follow(sessionId: string, follower: Follower): Unsubscribe;
  /** What `GET …/transcript` answers. */
  page: Page;
  /** An envelope of the daemon's, to whoever listens with `onCanonicalEvent` or follows the session. */
  _emitCanonicalEvent(sessionId: string, envelope: unknown): void;
}

interface Heard {
  events: Listeners<[StreamEvent]>;
  confirmations: Listeners<[ToolConfirmationRequest, Respond]>;
  canonical: Listeners<[Envelope]>;
}

const EMPTY: Page = { as_of_seq: 0, entries: [], open: { approvals: [], questions: [], parts: [] }, earlier: null, later: null };

/**
 * `fn` wraps `send`, `session`, `abort`, `interrupt`, `subscribe` and `unsubscribe`, for spies: `createMockClient(vi.fn)`.
 * With `durableQueue` its accessors have a queue, as the daemon's client has.
 */
export function createMockClient(fn: SpyFactory = same => same, { durableQueue = false }: { durableQueue?: boolean } = {}): MockClient {
  const accessors = new Map<string, { accessor: MockAccessor; heard: Heard }>();
  const sent: MockClient["sent"] = [];
  const answered: ToolConfirmationResponse[] = [];
  const everywhere = new Listeners<[StreamEvent]>();
  const find = (id: string) => {
    let found = accessors.get(id);
    if (found === undefined) {
      const heard = { events: new Listeners(), confirmations: new Listeners(), canonical: new Listeners() } as Heard;
      found = { accessor: makeAccessor(id, heard, fn, durableQueue), heard };
      accessors.set(id, found);
    }
    return found;
  };
  return {
    sent,
    answered,
    page: EMPTY,
    async request<T>(_method: string, path: string): Promise<T> {
      return (path.endsWith("/transcript") ? this.page : {}) as T;
    },
    follow: (id, follower) => find(id).heard.canonical.add(envelope => follower.take(envelope)),
    send: fn((input: SendInput, options: { sessionId?: string; delivery?: "queue" } = {}) => {
      sent.push({ input, ...options });
      return createMockHandle();
    }),
    session: fn((id: string) => find(id).accessor),
    getAccessor: id => find(id).accessor,
    onEvent: handler => everywhere.add(handler),
    _emitSessionEvent: (id, event) => {
      find(id).heard.events.call(event);
      everywhere.call(event);
    },
    _emitToolConfirmation: (id, request, respond = response => void answered.push(response)) =>
      find(id).heard.confirmations.call(request, respond),
    _emitCanonicalEvent: (id, envelope) => find(id).heard.canonical.call(envelope as Envelope),
  };
}

function makeAccessor(sessionId: string, heard: Heard, fn: SpyFactory, durableQueue: boolean): MockAccessor {
  let subscriptions = 0;
  const interrupted: SendInput[] = [];
  return {
    sessionId,
    interrupted,
    get subscriptions() {
      return subscriptions;
    },
    ...(durableQueue ? { queue: new MockQueue() } : {}),
    subscribe: fn(() => {
      subscriptions += 1;
    }),
    unsubscribe: fn(() => {
      subscriptions -= 1;
    }),
    send: fn((_input: SendInput) => createMockHandle()),
    abort: fn(() => {}),
    interrupt: fn((input: SendInput) => {
      interrupted.push(input);
      return createMockHandle();
    }),
    onEvent: (handler: EventHandler) => heard.events.add(handler),
    onToolConfirmation: (handler: ConfirmationHandler) => heard.confirmations.add(handler),
    onCanonicalEvent: handler => heard.canonical.add(handler),
  };
}
