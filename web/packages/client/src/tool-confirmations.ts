/** Tool calls that wait for somebody's word: which ones, and the answer to each. */

import type {
  ClientSeam,
  ConfirmationDecision,
  ConfirmationPolicy,
  Respond,
  StreamEvent,
  ToolConfirmationRequest,
  ToolConfirmationResponse,
  ToolConfirmationState,
  ToolConfirmationsOptions,
  ToolConfirmationsState,
} from "./chat-types.js";
import { Store } from "./store.js";

/** A policy answers first; what it leaves to the person is pending. A later request denies no earlier one. */
export class ToolConfirmations extends Store<ToolConfirmationsState> {
  #pending: readonly ToolConfirmationState[] = [];
  readonly #policy: ConfirmationPolicy | undefined;

  constructor(client: ClientSeam, options: ToolConfirmationsOptions = {}) {
    super();
    this.#policy = options.policy;
    this.snapshot = this.takeSnapshot();
    if (options.subscribe !== false && options.sessionId) {
      const accessor = client.session(options.sessionId);
      this.ends = [
        accessor.onEvent(event => this.processEvent(event)),
        accessor.onToolConfirmation((request, respond) => this.handleConfirmation(request, respond)),
        () => accessor.unsubscribe?.(),
      ];
      accessor.subscribe?.();
    }
  }

  get pending(): ToolConfirmationState | null {
    return this.snapshot.pending;
  }

  get pendingAll(): readonly ToolConfirmationState[] {
    return this.snapshot.pendingAll;
  }

  /** Let the policy answer, or show it to the person. One that is already shown is shown anew. */
  handleConfirmation(request: ToolConfirmationRequest, respond: Respond): void {
    const decision = this.#decide(request);
    if (decision.action === "approve") respond({ approved: true });
    else if (decision.action === "deny") {
      respond(decision.reason === undefined ? { approved: false } : { approved: false, reason: decision.reason });
    } else {
      this.#pending = [...this.#others(request.toolUseId), { request, respond }];
      this.changed();
    }
  }

  /** Answer the newest one, or the one that is named; false where there is none. Then the next newest is pending. */
  respond(response: ToolConfirmationResponse, toolUseId?: string): boolean {
    const asked = this.#pending.findLast(waits => toolUseId === undefined || waits.request.toolUseId === toolUseId);
    if (asked === undefined) return false;
    asked.respond(response);
    this.#drop(asked.request.toolUseId);
    return true;
  }

  /** What was settled elsewhere is dropped; after a restored log the requests that are open come anew. */
  processEvent(event: StreamEvent): void {
    if (event.type === "tool_confirmation_settled") this.#drop(event.callId);
    else if (event.type === "session_restored" && this.#pending.length > 0) {
      this.#pending = [];
      this.changed();
    }
  }

  /** An answer that was refused comes back to a person, and so does what a broken policy did not decide. */
  #decide(request: ToolConfirmationRequest): ConfirmationDecision {
    if (this.#policy === undefined || "refused" in (request.metadata ?? {})) return { action: "prompt" };
    try {
      return this.#policy(request);
    } catch (error) {
      console.error(`The confirmation policy threw; ${request.name} is left to the person.`, error);
      return { action: "prompt" };
    }
  }

  #others(toolUseId: string): ToolConfirmationState[] {
    return this.#pending.filter(waits => waits.request.toolUseId !== toolUseId);
  }

  #drop(toolUseId: string): void {
    const others = this.#others(toolUseId);
    if (others.length === this.#pending.length) return;
    this.#pending = others;
    this.changed();
  }

  protected takeSnapshot(): ToolConfirmationsState {
    return { pending: this.#pending.at(-1) ?? null, pendingAll: this.#pending };
  }
}
