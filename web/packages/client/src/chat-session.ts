/** A whole chat in one object: messages, confirmations and steering, driven by one subscription. */

import { defaultDeriveMode } from "./chat-transforms.js";
import type {
  ChatError,
  ChatMessage,
  ChatMode,
  ChatModeDeriver,
  ChatSessionOptions,
  ChatSessionState,
  ClientSeam,
  Content,
  EventHandler,
  Message,
  Respond,
  SessionAccessor,
  SteeringMode,
  StreamEvent,
  ToolConfirmationRequest,
  ToolConfirmationResponse,
  ToolConfirmationState,
} from "./chat-types.js";
import { MessageLog } from "./message-log.js";
import { MessageSteering, textOf } from "./message-steering.js";
import { callSafely, Store } from "./store.js";
import { ToolConfirmations } from "./tool-confirmations.js";

/**
 * One snapshot and one notification for each event, after all parts have taken it; the chat mode is derived anew each time.
 * With `subscribe: false` somebody else calls `processEvent`, `handleConfirmation` and `processQueue`.
 */
export class ChatSession<T extends string = ChatMode> extends Store<ChatSessionState<T>> {
  readonly sessionId: string | undefined;
  readonly #log: MessageLog;
  readonly #confirmations: ToolConfirmations;
  readonly #steering: MessageSteering;
  readonly #deriveMode: ChatModeDeriver<T>;
  readonly #onEvent: EventHandler | undefined;
  #lastSubmitted: string | null = null;
  #acting = false;

  constructor(client: ClientSeam, options: ChatSessionOptions<T> = {}) {
    super();
    const { sessionId, initialMessages, transform, confirmationPolicy: policy, mode, flushMode, autoFlush } = options;
    this.sessionId = sessionId;
    // without a deriver of its own T is ChatMode
    this.#deriveMode = options.deriveMode ?? (defaultDeriveMode as ChatModeDeriver<string> as ChatModeDeriver<T>);
    this.#onEvent = options.onEvent;
    this.#log = new MessageLog(client, { sessionId, initialMessages, transform, subscribe: false });
    this.#confirmations = new ToolConfirmations(client, { sessionId, policy, subscribe: false });
    this.#steering = new MessageSteering(client, { sessionId, mode, flushMode, autoFlush, subscribe: false });
    this.snapshot = this.takeSnapshot();
    if (options.subscribe !== false && sessionId) this.#subscribe(client.session(sessionId), options.autoSubscribe ?? true);
  }

  #subscribe(accessor: SessionAccessor, autoSubscribe: boolean): void {
    this.ends = [
      accessor.onEvent(event => this.processEvent(event)),
      accessor.onToolConfirmation((request, respond) => this.handleConfirmation(request, respond)),
    ];
    if (accessor.queue !== undefined) this.ends.push(accessor.queue.onChange(() => this.processQueue()));
    if (autoSubscribe && accessor.subscribe !== undefined) {
      accessor.subscribe();
      this.ends.push(() => accessor.unsubscribe?.());
    }
  }

  // --- state -------------------------------------------------------------------------------------------------------------------

  get messages(): readonly ChatMessage[] {
    return this.snapshot.messages;
  }

  get chatMode(): T {
    return this.snapshot.chatMode;
  }

  get toolConfirmation(): ToolConfirmationState | null {
    return this.snapshot.toolConfirmation;
  }

  get toolConfirmations(): readonly ToolConfirmationState[] {
    return this.snapshot.toolConfirmations;
  }

  /** What was sent and is not yet among the messages: null again when its execution has ended. */
  get lastSubmitted(): string | null {
    return this.snapshot.lastSubmitted;
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

  /** Send it, or keep it as the mode says. What is kept stands in `queued` and not in `lastSubmitted`. */
  submit(text: Content): void {
    this.#inOneChange(() => {
      const before = this.#lastSubmitted;
      this.#lastSubmitted = textOf(text);
      let sent = false;
      try {
        sent = this.#steering.submit(text);
      } finally {
        if (!sent) this.#lastSubmitted = before;
      }
    });
  }

  steer(text: Content): void {
    this.#inOneChange(() => this.#steering.steer(text));
  }

  queue(text: Content): void {
    this.#inOneChange(() => this.#steering.queue(text));
  }

  /** Stop what runs and send this instead: at once, what this returns can be awaited for the answer. */
  interrupt(text: Content): Promise<unknown> {
    return this.#steering.interrupt(text);
  }

  flush(): void {
    this.#inOneChange(() => this.#steering.flush());
  }

  removeQueued(index: number): void {
    this.#inOneChange(() => this.#steering.removeQueued(index));
  }

  clearQueued(): void {
    this.#inOneChange(() => this.#steering.clearQueued());
  }

  setMode(mode: SteeringMode): void {
    this.#inOneChange(() => this.#steering.setMode(mode));
  }

  /** Answer the newest confirmation, or the one that is named. Without one nothing changes and nobody is told. */
  respondToConfirmation(response: ToolConfirmationResponse, toolUseId?: string): void {
    if (this.#confirmations.respond(response, toolUseId)) this.changed();
  }

  /** Empty what is shown here. A queue that others see too is left alone. */
  clearMessages(): void {
    this.#inOneChange(() => {
      this.#log.clear();
      this.#lastSubmitted = null;
      this.#steering.clearKept();
    });
  }

  // --- what happens ------------------------------------------------------------------------------------------------------------

  processEvent(event: StreamEvent): void {
    if (this.#onEvent !== undefined) callSafely(this.#onEvent, event);
    this.#steering.processEvent(event);
    this.#log.processEvent(event);
    this.#confirmations.processEvent(event);
    if (event.type === "execution_end") this.#lastSubmitted = null;
    else if (event.type === "message_refused" || (event.type === "message_accepted" && event.delivered === "queued")) {
      if (event.text === this.#lastSubmitted) this.#lastSubmitted = null;
    }
    this.changed();
  }

  handleConfirmation(request: ToolConfirmationRequest, respond: Respond): void {
    this.#confirmations.handleConfirmation(request, respond);
    this.changed();
  }

  processQueue(): void {
    if (!this.#acting && this.#steering.processQueue()) this.changed();
  }

  override destroy(): void {
    super.destroy();
    this.#log.destroy();
    this.#confirmations.destroy();
    this.#steering.destroy();
  }

  /** What a person does is told once, however many parts it changes. */
  #inOneChange(act: () => void): void {
    this.#acting = true;
    try {
      act();
    } finally {
      this.#acting = false;
    }
    this.changed();
  }

  protected takeSnapshot(): ChatSessionState<T> {
    const steering = this.#steering.state;
    const confirmations = this.#confirmations.state;
    return {
      messages: this.#log.messages,
      chatMode: this.#deriveMode({ isExecuting: steering.isExecuting, hasPendingConfirmation: confirmations.pending !== null }),
      toolConfirmation: confirmations.pending,
      toolConfirmations: confirmations.pendingAll,
      lastSubmitted: this.#lastSubmitted,
      queued: steering.queued,
      isExecuting: steering.isExecuting,
      mode: steering.mode,
      error: steering.error,
    };
  }
}
