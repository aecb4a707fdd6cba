/** What the agent is writing right now, letter by letter. */

import type { ClientSeam, StreamingTextState } from "./chat-types.js";
import type { Envelope } from "./feed.js";
import { afterCodePoints, codePoints } from "./fold/code-points.js";
import { Store } from "./store.js";
import type * as wire from "./wire.gen.js";

interface Growing {
  readonly kind: string;
  readonly confirmed: string;
  /** Code points that logged events confirm. */
  readonly chars: number;
  readonly provisional: string;
}

/**
 * The text and the thinking of the assistant's newest message. With `subscribe: false` somebody else feeds `processEvent`.
 * It takes the daemon's own envelopes: what is logged counts, the tail is shown until the log confirms it or the connection is new.
 */
export class StreamingText extends Store<StreamingTextState> {
  #messageId: string | null = null;
  #parts = new Map<string, Growing>();
  #isStreaming = false;

  constructor(client: ClientSeam, options: { sessionId?: string | undefined; subscribe?: boolean | undefined } = {}) {
    super();
    this.snapshot = this.takeSnapshot();
    if (options.subscribe === false || !options.sessionId) return;
    const accessor = client.session(options.sessionId);
    const leave = accessor.onCanonicalEvent?.((envelope: Envelope) => this.processEvent(envelope));
    this.ends = [() => leave?.(), () => accessor.unsubscribe?.()];
    accessor.subscribe?.();
  }

  get text(): string {
    return this.snapshot.text;
  }

  get thinking(): string {
    return this.snapshot.thinking;
  }

  get isStreaming(): boolean {
    return this.snapshot.isStreaming;
  }

  /** Take the next envelope; tells once if it changes what is shown. */
  processEvent(envelope: Envelope): void {
    if (this.#take(envelope)) this.changed();
  }

  #take(envelope: Envelope): boolean {
    const data = envelope.data as never;
    switch (envelope.type) {
      case "model_output_started":
        return this.#start((data as wire.ModelOutputStarted).message_id);
      case "model_output_delta":
        return envelope.seq === undefined ? this.#foresee(data as wire.ModelOutputDelta) : this.#confirm(data as wire.ModelOutputDelta);
      case "model_output_completed":
        return this.#complete((data as wire.ModelOutputCompleted).message);
      case "model_output_discarded":
        return (data as wire.ModelOutputDiscarded).message_id === this.#messageId && this.#start(null);
      case "turn_completed": {
        const before = this.#isStreaming;
        this.#isStreaming = false;
        return before;
      }
      case "hello":
        return this.#forgetProvisional();
      default:
        return false;
    }
  }

  #start(messageId: string | null): true {
    this.#messageId = messageId;
    this.#parts = new Map();
    this.#isStreaming = messageId !== null;
    return true;
  }

  #part(data: wire.ModelOutputDelta): Growing {
    return this.#parts.get(data.part_id) ?? { kind: data.kind, confirmed: "", chars: 0, provisional: "" };
  }

  #confirm(data: wire.ModelOutputDelta): true {
    if (data.message_id !== this.#messageId) this.#start(data.message_id);
    const part = this.#part(data);
    const chars = codePoints(data.text);
    const provisional = afterCodePoints(part.provisional, chars);
    this.#parts.set(data.part_id, { ...part, confirmed: part.confirmed + data.text, chars: part.chars + chars, provisional });
    return true;
  }

  /** Only what lies beyond what is there; one that starts further on is ignored, the log will bring it. */
  #foresee(data: wire.ModelOutputDelta): boolean {
    if (!this.#isStreaming || data.message_id !== this.#messageId) return false;
    const part = this.#part(data);
    const have = part.chars + codePoints(part.provisional);
    if (data.offset > have || have >= data.offset + codePoints(data.text)) return false;
    this.#parts.set(data.part_id, { ...part, provisional: part.provisional + afterCodePoints(data.text, have - data.offset) });
    return true;
  }

  #forgetProvisional(): boolean {
    let held = false;
    for (const [id, part] of this.#parts) {
      held ||= part.provisional !== "";
      this.#parts.set(id, { ...part, provisional: "" });
    }
    return held;
  }

  #complete(message: wire.Message): true {
    this.#start(message.id);
    this.#isStreaming = false;
    for (const { id, type: kind, text } of message.parts) {
      if (kind === "text" || kind === "thinking") this.#parts.set(id ?? "", { kind, confirmed: text ?? "", chars: 0, provisional: "" });
    }
    return true;
  }

  protected takeSnapshot(): StreamingTextState {
    const joined = (kind: string) =>
      [...this.#parts.values()].map(part => (part.kind === kind ? part.confirmed + part.provisional : "")).join("");
    return { text: joined("text"), thinking: joined("thinking"), isStreaming: this.#isStreaming, messageId: this.#messageId };
  }
}
