/** Spec 003's SessionInfo, live: what an agent offers and what of it is chosen. A native agent that has no commands has an empty list. */

import type { ChatError, Unsubscribe } from "./chat-types.js";
import { asError, type PalaverError } from "./errors.js";
import type { Envelope, Follower } from "./feed.js";
import { Open } from "./fold/open.js";
import type { OpenPage } from "./fold/page.js";
import { factsAfter, NO_FACTS, type SessionFacts } from "./session-facts.js";
import { Store } from "./store.js";
import type { TranscriptClient } from "./transcript.js";
import type { Logged, Session } from "./wire.gen.js";

export interface SessionInfo {
  readonly sessionId: string;
  readonly agentId: string;
  readonly status: "idle" | "generating" | "paused" | "error";
  readonly workspace: string;
  readonly availableModes: readonly { readonly id: string; readonly name: string; readonly description?: string }[];
  readonly currentModeId: string | null;
  readonly availableModels: readonly { readonly id: string; readonly name: string; readonly description?: string }[];
  readonly currentModelId: string | null;
  readonly availableCommands: readonly { readonly name: string; readonly description?: string; readonly inputHint?: string }[];
  readonly capabilities: {
    readonly supportsVision: boolean;
    readonly supportsTools: boolean;
    readonly supportsModes: boolean;
    readonly supportsCommands: boolean;
  };
}

export interface AgenticSessionState {
  /** Null until it is known. */
  readonly sessionInfo: SessionInfo | null;
  readonly error: ChatError | null;
}

export class AgenticSession extends Store<AgenticSessionState> {
  readonly #client: TranscriptClient;
  readonly #path: string;
  readonly #sessionId: string;
  readonly #follower: Follower;
  #facts: SessionFacts = NO_FACTS;
  #open = new Open();
  #failed = false;
  #info: SessionInfo | null = null;
  #error: ChatError | null = null;
  #leave: Unsubscribe | undefined;
  #load = 0;

  constructor(client: TranscriptClient, options: { sessionId: string; subscribe?: boolean | undefined }) {
    super();
    this.#client = client;
    this.#sessionId = options.sessionId;
    this.#path = `/v1/sessions/${encodeURIComponent(options.sessionId)}`;
    this.#follower = {
      after: 0,
      take: envelope => this.processEvent(envelope),
      begin: () => void this.#begin(),
      fail: error => this.#fail(error),
    };
    this.snapshot = this.takeSnapshot();
    this.ends = [() => this.#end()];
    if (options.subscribe !== false) void this.#begin();
  }

  get sessionInfo(): SessionInfo | null {
    return this.snapshot.sessionInfo;
  }

  /** Take the next envelope; tells only where what an agent offers, or how it stands, became another. */
  processEvent(envelope: Envelope): void {
    if (envelope.session_id !== this.#sessionId) return;
    const head = this.#facts.session?.head_seq ?? 0;
    this.#facts = factsAfter(this.#facts, envelope, () => undefined);
    if (envelope.type === "hello") this.#greeted(envelope);
    else if (envelope.seq !== undefined && envelope.seq > head) this.#happened(envelope as unknown as Logged);
    const { session } = this.#facts;
    const info = session === null ? null : infoOf(session, this.#status());
    if (JSON.stringify(info) === JSON.stringify(this.#info)) return;
    this.#info = info;
    this.changed();
  }

  async setMode(id: string): Promise<void> {
    await this.#client.request("POST", `${this.#path}/mode`, { id });
  }

  async setModel(id: string): Promise<void> {
    await this.#client.request("POST", `${this.#path}/model`, { id });
  }

  #greeted(envelope: Envelope): void {
    this.#open = new Open(envelope.data.open as OpenPage);
    this.#failed = this.#facts.session?.status === "failed";
  }

  #happened(event: Logged): void {
    this.#open.note(event);
    if (event.type === "turn_completed") this.#failed = event.data.outcome === "failed";
    else if (event.type === "turn_started") this.#failed = false;
  }

  #status(): SessionInfo["status"] {
    const { turn, approvals, questions } = this.#open.toPage();
    if (approvals.length + questions.length > 0) return "paused";
    if (turn !== undefined) return "generating";
    return this.#failed ? "error" : "idle";
  }

  async #begin(): Promise<void> {
    this.#load += 1;
    const load = this.#load;
    this.#leave?.();
    try {
      const session = await this.#client.request<Session>("GET", this.#path);
      if (load !== this.#load) return;
      this.#follower.after = session.head_seq;
      this.#leave = this.#client.follow(this.#sessionId, this.#follower);
    } catch (thrown) {
      if (load === this.#load) this.#fail(asError(thrown));
    }
  }

  #fail(error: PalaverError): void {
    this.#error = { code: error.code, message: error.message, text: "" };
    this.changed();
  }

  #end(): void {
    this.#load += 1;
    this.#leave?.();
    this.#leave = undefined;
  }

  protected takeSnapshot(): AgenticSessionState {
    return { sessionInfo: this.#info, error: this.#error };
  }
}

function infoOf(session: Session, status: SessionInfo["status"]): SessionInfo {
  const { capabilities, available_commands = [] } = session;
  return {
    sessionId: session.id,
    agentId: session.agent,
    status,
    workspace: session.workspace_path,
    availableModes: (session.available_modes ?? []).map(described),
    currentModeId: session.mode || null,
    availableModels: (session.available_models ?? []).map(described),
    currentModelId: session.model ?? null,
    availableCommands: available_commands.map(({ name, description, input_hint }) => ({
      name,
      ...(description ? { description } : {}),
      ...(input_hint ? { inputHint: input_hint } : {}),
    })),
    capabilities: {
      supportsVision: capabilities.vision,
      supportsTools: capabilities.tools,
      supportsModes: capabilities.modes,
      supportsCommands: capabilities.commands,
    },
  };
}

function described(choice: { id: string; name: string; description?: string | null }): { id: string; name: string; description?: string } {
  const { id, name, description } = choice;
  return description ? { id, name, description } : { id, name };
}
