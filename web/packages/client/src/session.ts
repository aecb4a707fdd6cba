/**
 * A session of the daemon as the primitives see it.
 *
 * `subscribe` replays the log silently and tells what was there in one `session_restored`, then only what happens. Whoever joins later is
 * told the same first. A connection that breaks is taken up at its cursor, so nothing comes twice and nothing is left out.
 */

import type {
  ConfirmationHandler,
  EventHandler,
  Message,
  SendInput,
  SessionAccessor,
  StreamEvent,
  ToolConfirmationRequest,
  ToolConfirmationResponse,
  Unsubscribe,
} from "./chat-types.js";
import type { Connection, Query } from "./connection.js";
import { MirroredQueue } from "./durable-queue.js";
import { codeOf, type PalaverError } from "./errors.js";
import type { Envelope, Follower } from "./feed.js";
import { Handle, type PostOptions } from "./handle.js";
import { textOf } from "./message-steering.js";
import type { Done, Outbox, Work } from "./outbox.js";
import { whole } from "./refs.js";
import type { Socket } from "./socket.js";
import { callSafely, Listeners } from "./store.js";
import { confirmationOf, partsOf, Timeline } from "./timeline.js";
import type * as wire from "./wire.gen.js";

/** What a session needs of its client. */
export interface Home {
  readonly connection: Connection;
  readonly socket: Socket;
  readonly outbox: Outbox;
  send(input: SendInput | string, options: { sessionId: string; delivery?: PostOptions["delivery"] }): Handle;
  tell(event: StreamEvent): void;
  refused(error: PalaverError, handle?: Handle): void;
}

/** A message that the daemon has not answered for yet. */
export interface OutboxItem {
  readonly clientMessageId: string;
  readonly message: Message;
  readonly delivery: NonNullable<PostOptions["delivery"]>;
}

type Asked = Extract<wire.Logged, { type: "approval_requested" }>;

export class Session implements SessionAccessor {
  readonly path: string;
  readonly queue: MirroredQueue;
  readonly #home: Home;
  readonly #events = new Listeners<[StreamEvent]>();
  readonly #confirmations = new Listeners<Parameters<ConfirmationHandler>>();
  readonly #canonical = new Listeners<[Envelope]>();
  /** For whoever joined since the last event: what was there before. */
  readonly #greetings = new Map<object, () => void>();
  readonly #outboxChanges = new Listeners<[]>();
  #outbox: readonly OutboxItem[] = [];
  #readers = 0;
  #stop: Unsubscribe | undefined;
  #timeline = new Timeline();
  /** The logged output of the message that is being written. */
  #writing: Envelope[] = [];
  /** Approvals that cannot be shown before the rest of them is loaded. */
  readonly #shortened = new Map<string, Asked>();
  #last = { seq: 0, ts: "" };
  #isLive = false;

  constructor(
    home: Home,
    readonly sessionId: string,
  ) {
    this.#home = home;
    this.path = `/v1/sessions/${encodeURIComponent(sessionId)}`;
    this.queue = new MirroredQueue(this);
  }

  // --- joining and leaving -------------------------------------------------------------------------------------------------------

  get isSubscribed(): boolean {
    return this.#readers > 0;
  }

  /** Begin to read the session; as often as it is called, `unsubscribe` ends it. */
  subscribe(): void {
    this.#readers += 1;
    this.#stop ??= this.#home.socket.follow(this.sessionId, this.#follower());
  }

  unsubscribe(): void {
    this.#readers = Math.max(0, this.#readers - 1);
    if (this.#readers > 0) return;
    this.#stop?.();
    this.#stop = undefined;
    this.#begin();
  }

  /** One reading of the log: what is on its way when it ends comes to nobody, since the feed lets go of it. */
  #follower(): Follower {
    return {
      after: 0,
      take: envelope => this.#take(envelope),
      begin: () => this.#begin(),
      fail: error => this.#fail(error),
    };
  }

  onEvent(handler: EventHandler): Unsubscribe {
    return this.#join(this.#events.add(handler), () => callSafely(handler, this.#restored()));
  }

  onToolConfirmation(handler: ConfirmationHandler): Unsubscribe {
    return this.#join(this.#confirmations.add(handler), () => this.#askAll((...asked) => callSafely(handler, ...asked)));
  }

  /**
   * The daemon's own envelopes: logged ones once and in order, the tail and `hello` without a `seq`.
   * A message that is being written when the handler joins comes from its beginning.
   */
  onCanonicalEvent(handler: (envelope: Envelope) => void): Unsubscribe {
    return this.#join(this.#canonical.add(handler), () => {
      for (const envelope of [...this.#writing]) callSafely(handler, envelope);
    });
  }

  #join(leave: Unsubscribe, greet: () => void): Unsubscribe {
    const key = {};
    if (this.#isLive) {
      this.#greetings.set(key, greet);
      queueMicrotask(() => this.#greet());
    }
    return () => {
      leave();
      this.#greetings.delete(key);
    };
  }

  #greet(): void {
    const greetings = [...this.#greetings.values()];
    this.#greetings.clear();
    for (const greet of greetings) greet();
  }

  // --- what a person does --------------------------------------------------------------------------------------------------------

  send(input: SendInput | string): Handle {
    return this.#home.send(input, { sessionId: this.sessionId });
  }

  /** Stop the turn that runs and let this be the next one, in one command. */
  interrupt(input: SendInput | string): Handle {
    return this.#home.send(input, { sessionId: this.sessionId, delivery: "interrupt" });
  }

  /** Cancel the turn that runs. The queue is kept, and paused. */
  abort(): void {
    const body = this.#timeline.turnId === null ? {} : { turn_id: this.#timeline.turnId };
    this.#home.outbox.handOver(null, () => this.request("POST", `${this.path}/cancel`, body), this.#refusedIf);
  }

  /** One POST, after those before it. Sent twice because an answer was lost, it counts once. */
  post(message: Message, options: PostOptions = {}): Handle {
    const handle = new Handle(options.clientMessageId);
    const body = {
      role: "user",
      parts: partsOf(message.content),
      delivery: options.delivery ?? "steer",
      client_message_id: handle.clientMessageId,
      ...(options.draftRev === undefined ? {} : { draft_rev: options.draftRev }),
    };
    const work = async () => (await this.request("POST", `${this.path}/messages`, body)) as wire.Accepted;
    this.#setOutbox([...this.#outbox, { clientMessageId: handle.clientMessageId, message, delivery: body.delivery }]);
    this.command(work, (reply, error) => this.#posted(handle, textOf(message.content), reply, error));
    return handle;
  }

  /** What is on its way, the oldest first: while the daemon cannot be reached it waits here, and is sent once. */
  get outbox(): readonly OutboxItem[] {
    return this.#outbox;
  }

  onOutboxChange(listener: () => void): Unsubscribe {
    return this.#outboxChanges.add(listener);
  }

  #setOutbox(outbox: readonly OutboxItem[]): void {
    this.#outbox = outbox;
    this.#outboxChanges.call();
  }

  command<T>(work: Work<T>, done: Done<T>): void {
    this.#home.outbox.handOver(this.sessionId, work, done);
  }

  request(method: string, path: string, body?: unknown, query?: Query): Promise<unknown> {
    return this.#home.socket.request(method, path, body, query);
  }

  refused(error: PalaverError): void {
    this.#home.refused(error);
  }

  #posted(handle: Handle, text: string, reply: wire.Accepted | undefined, error: PalaverError | undefined): void {
    const { clientMessageId } = handle;
    const local = { sessionId: this.sessionId, clientMessageId, text };
    const waits = reply?.delivered === "queued" && this.isSubscribed;
    if (!waits) this.queue.withdraw(clientMessageId);
    handle.settle(reply, error);
    this.#setOutbox(this.#outbox.filter(item => item.clientMessageId !== clientMessageId));
    if (error !== undefined) {
      this.#home.refused(error, handle);
      this.#tell({ ...local, type: "message_refused", code: error.code, message: error.message });
    } else if (reply !== undefined) {
      this.#tell({ ...local, type: "message_accepted", delivered: reply.delivered, turnId: reply.turn_id });
    }
    this.queue.changed();
  }

  readonly #refusedIf = (_: unknown, error: PalaverError | undefined): void => {
    if (error !== undefined) this.#home.refused(error);
  };

  // --- what happens --------------------------------------------------------------------------------------------------------------

  /** Know nothing: at first, and when the log was replaced. */
  #begin(): void {
    this.#timeline = new Timeline();
    this.#writing = [];
    this.#shortened.clear();
    this.#last = { seq: 0, ts: "" };
    this.#isLive = false;
    this.queue.forget();
  }

  #take(envelope: Envelope): void {
    if (envelope.seq === undefined) this.#takeUnlogged(envelope);
    else if (this.#isLive) {
      this.#greet();
      this.#happened(envelope);
    } else this.#fold(envelope);
  }

  #fail(error: PalaverError): void {
    this.#stop = undefined;
    this.#home.refused(error);
    this.#tell({ type: "stream_failed", sessionId: this.sessionId, code: error.code, message: error.message });
  }

  #takeUnlogged(envelope: Envelope): void {
    if (envelope.type === "caught_up") {
      if (!this.#isLive) this.#goLive();
    } else if (this.#isLive) this.#canonical.call(envelope);
  }

  #goLive(): void {
    this.#isLive = true;
    this.#greetings.clear();
    this.#tell(this.#restored());
    this.queue.changed();
    for (const envelope of [...this.#writing]) this.#canonical.call(envelope);
    this.#askAll((...asked) => this.#confirmations.call(...asked));
    for (const approvalId of [...this.#shortened.keys()]) this.#load(approvalId);
  }

  #happened(envelope: Envelope): void {
    const { events, queueChanged } = this.#fold(envelope);
    this.#canonical.call(envelope);
    if (queueChanged) this.queue.changed();
    for (const event of events) this.#tell(event);
    const logged = envelope as unknown as wire.Logged;
    if (logged.type === "approval_requested") this.#askOrLoad(logged.data.approval_id);
  }

  #fold(envelope: Envelope): { events: StreamEvent[]; queueChanged: boolean } {
    const event = envelope as unknown as wire.Logged; // one of an unknown type falls through every switch
    this.#last = { seq: event.seq, ts: event.ts };
    if (event.type === "model_output_started") this.#writing = [envelope];
    else if (event.type === "model_output_delta") this.#writing.push(envelope);
    else if (event.type === "approval_requested" && event.data.refs) this.#shortened.set(event.data.approval_id, event);
    else if (event.type === "approval_granted" || event.type === "approval_denied") this.#shortened.delete(event.data.approval_id);
    else if (["model_output_completed", "model_output_discarded", "turn_completed"].includes(event.type)) this.#writing = [];
    return { events: this.#timeline.take(event), queueChanged: this.queue.take(event) };
  }

  #restored(): StreamEvent {
    const { seq, ts } = this.#last;
    const at = { id: `${this.sessionId}/restored/${seq}`, sequence: seq, timestamp: ts, sessionId: this.sessionId };
    return { ...this.#timeline.restored(), ...at };
  }

  #tell(event: StreamEvent): void {
    this.#events.call(event);
    this.#home.tell(event);
  }

  // --- confirmations -------------------------------------------------------------------------------------------------------------

  #askAll(ask: (...asked: Parameters<ConfirmationHandler>) => void): void {
    for (const [approvalId, request] of [...this.#timeline.approvals]) {
      if (!this.#shortened.has(approvalId)) ask(request, response => this.#respond(approvalId, response));
    }
  }

  #ask(approvalId: string): void {
    const request = this.#timeline.approvals.get(approvalId);
    if (request !== undefined) this.#confirmations.call(request, response => this.#respond(approvalId, response));
  }

  #askOrLoad(approvalId: string): void {
    if (this.#shortened.has(approvalId)) this.#load(approvalId);
    else this.#ask(approvalId);
  }

  /** Nobody is asked about what they cannot see whole. */
  #load(approvalId: string): void {
    const event = this.#shortened.get(approvalId);
    if (event === undefined) return;
    const work = () => whole(this.#home.connection, this.sessionId, event.data);
    this.#home.outbox.handOver(null, work, (data, error) => {
      if (error !== undefined) return this.#home.refused(error);
      if (this.#shortened.get(approvalId) !== event || data === undefined) return;
      this.#shortened.delete(approvalId);
      this.#timeline.approvals.set(approvalId, confirmationOf({ ...event, data }));
      this.#ask(approvalId);
    });
  }

  /** Hand the answer over. Where somebody was quicker that is no error; where it is not taken the request comes again. */
  #respond(approvalId: string, response: ToolConfirmationResponse): void {
    const { approved, reason, modifiedArguments, always } = response;
    const body = {
      action: approved ? "approve" : "deny",
      client_answer_id: crypto.randomUUID(),
      ...(reason == null ? {} : { reason }),
      ...(modifiedArguments == null ? {} : { input: modifiedArguments }),
      ...(always ? { scope: "session" } : {}),
    };
    const work = () => this.request("POST", `/v1/approvals/${encodeURIComponent(approvalId)}`, body);
    this.#home.outbox.handOver(null, work, (_, error) => this.#responded(approvalId, error));
  }

  #responded(approvalId: string, error: PalaverError | undefined): void {
    if (error === undefined || codeOf(error) === "already_answered") return;
    this.#home.refused(error);
    const request = this.#timeline.approvals.get(approvalId);
    if (request === undefined) return;
    const metadata = { ...request.metadata, refused: { code: error.code, message: error.message } };
    const again: ToolConfirmationRequest = { ...request, metadata };
    this.#timeline.approvals.set(approvalId, again);
    this.#ask(approvalId);
  }
}
