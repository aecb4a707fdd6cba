/** The messages of a session, taken from the ends of its executions, with how long each tool took. */

import { defaultTransform } from "./chat-transforms.js";
import type {
  ChatMessage,
  ClientSeam,
  ExecutionEndEvent,
  MessageLogOptions,
  MessageLogState,
  MessageTransform,
  MessageTransformContext,
  SessionRestoredEvent,
  StreamEvent,
  TimelineEntry,
} from "./chat-types.js";
import { Store } from "./store.js";

const FALLBACK = /^msg-(\d+)$/;

/**
 * Messages accumulate at each `execution_end`. With `subscribe: false` somebody else feeds `processEvent`.
 * A message whose id came before (a retry reads it again, a restored turn goes on) takes its own place again.
 */
export class MessageLog extends Store<MessageLogState> {
  #messages: ChatMessage[];
  /** Of those that came from a timeline: where the next full one is cut. */
  #messageCount: number;
  #known: Set<string>;
  readonly #hasInitial: boolean;
  readonly #toolTimers = new Map<string, number>();
  #toolDurations = new Map<string, number>();
  readonly #transform: MessageTransform;

  constructor(client: ClientSeam, options: MessageLogOptions = {}) {
    super();
    this.#messages = [...(options.initialMessages ?? [])];
    this.#messageCount = this.#messages.length;
    this.#hasInitial = this.#messages.length > 0;
    this.#known = new Set(this.#messages.map(message => message.id));
    this.#transform = options.transform ?? defaultTransform;
    this.snapshot = this.takeSnapshot();
    if (options.subscribe !== false && options.sessionId) {
      const accessor = client.session(options.sessionId);
      this.ends = [accessor.onEvent(event => this.processEvent(event)), () => accessor.unsubscribe?.()];
      accessor.subscribe?.();
    }
  }

  get messages(): readonly ChatMessage[] {
    return this.snapshot.messages;
  }

  /** Take the next event. Only `execution_end` and `session_restored` change the state, and each tells so once. */
  processEvent(event: StreamEvent): void {
    if (event.type === "tool_call_start") this.#toolTimers.set(event.callId, Date.now());
    else if (event.type === "tool_result") this.#endTimer(event.callId, event.durationMs);
    else if (event.type === "execution_end") {
      this.#endExecution(event);
      this.changed();
    } else if (event.type === "session_restored" && !this.#hasInitial) {
      this.#restore(event);
      this.changed();
    }
  }

  clear(): void {
    this.#messages = [];
    this.#messageCount = 0;
    this.#known.clear();
    this.#toolTimers.clear();
    this.#toolDurations.clear();
    this.changed();
  }

  /** What was measured beside the tool is preferred to our clock, which also counts the way of the news. */
  #endTimer(callId: string, measured: number | undefined): void {
    const begun = this.#toolTimers.get(callId);
    this.#toolTimers.delete(callId);
    if (measured !== undefined) this.#toolDurations.set(callId, measured);
    else if (begun !== undefined) this.#toolDurations.set(callId, Date.now() - begun);
  }

  #endExecution(event: ExecutionEndEvent): void {
    const timeline = event.output?.timeline;
    if (event.newTimelineEntries && event.newTimelineEntries.length > 0) this.#add(event.newTimelineEntries);
    else if (Array.isArray(timeline)) this.#append(this.#transform([...timeline], this.#context()).slice(this.#messageCount));
    this.#toolTimers.clear();
    this.#toolDurations.clear();
  }

  #add(entries: readonly TimelineEntry[]): void {
    const ids = entries.flatMap(entry => (entry as Partial<TimelineEntry>).message?.id || []);
    const again = new Set(ids.filter(id => this.#known.has(id)));
    for (const id of ids) this.#known.add(id);
    const fresh: ChatMessage[] = [];
    const messages = [...this.#messages];
    for (const message of this.#transform([...entries], this.#context())) {
      const place = again.has(message.id) ? messages.findIndex(other => other.id === message.id) : -1;
      if (place >= 0) messages[place] = message;
      else fresh.push(message);
    }
    this.#messages = messages;
    this.#append(fresh);
  }

  #append(fresh: readonly ChatMessage[]): void {
    this.#messages = [...this.#messages, ...fresh];
    this.#messageCount += fresh.length;
  }

  /** A later one begins anew: the log that the messages came from is no longer there. */
  #restore(event: SessionRestoredEvent): void {
    this.#messages = [];
    this.#toolTimers.clear();
    this.#toolDurations = new Map(Object.entries(event.toolDurations ?? {}));
    this.#messages = event.timeline === undefined ? [...event.messages] : this.#transform([...event.timeline], this.#context());
    this.#messageCount = this.#messages.length;
    this.#known = new Set(event.messages.map(message => message.id));
  }

  #context(): MessageTransformContext {
    return { toolDurations: new Map(this.#toolDurations), firstFallback: this.#firstFallback() };
  }

  #firstFallback(): number {
    const taken = this.#messages.map(message => Number(FALLBACK.exec(message.id)?.[1] ?? -1));
    return taken.reduce((most, one) => Math.max(most, one), -1) + 1;
  }

  protected takeSnapshot(): MessageLogState {
    return { messages: this.#messages };
  }
}
