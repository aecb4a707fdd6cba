// Made by `make wire` from the structs in src/palaver: change those, not this.

export interface Accepted {
  message_id: string;
  turn_id: string | null;
  delivered: "interrupting" | "queued" | "started" | "steered" | "stored";
  item_id?: string | null;
}

/** What a running turn is doing. */
export interface Activity {
  text: string;
  since: string;
}

export interface AgentInfo {
  name: string;
  backend: string;
  title: string;
  ready: boolean;
  capabilities: Capabilities;
  reason?: string | null;
  fix?: string | null;
  models?: unknown;
  modes?: unknown;
}

export interface AgentList {
  agents: Array<AgentInfo>;
}

export interface Answer {
  selected?: Array<string>;
  text?: string;
  value?: unknown;
}

export interface ApprovalAnswer {
  action?: "approve" | "deny" | null;
  scope?: "once" | "session" | "workspace" | null;
  option_id?: string | null;
  reason?: string | null;
  input?: unknown;
  client_answer_id?: string | null;
  always?: boolean;
}

export interface ApprovalDenied {
  refs?: Record<string, FileRef> | null;
  approval_id: string;
  tool_call: CallRef | null;
  by: string;
  cause: "cancelled" | "expired" | "policy" | "user";
  reason?: string | null;
  option_id?: string | null;
  client_answer_id?: string | null;
}

export interface ApprovalGranted {
  refs?: Record<string, FileRef> | null;
  approval_id: string;
  tool_call: CallRef | null;
  by: string;
  scope: "once" | "session" | "workspace";
  reason?: string | null;
  option_id?: string | null;
  input?: unknown;
  client_answer_id?: string | null;
}

export interface ApprovalOutcome {
  approval_id: string;
  outcome: string;
  by: string;
  at: string;
}

export interface ApprovalRequested {
  refs?: Record<string, FileRef> | null;
  approval_id: string;
  subject: "budget" | "login" | "plan" | "review" | "tool" | "trust";
  tool_call: ToolCall | null;
  kind: "ask" | "delegate" | "exec" | "network" | "read" | "write";
  preview: Preview;
  options: Array<Option>;
  reason?: string | null;
  deadline?: string | null;
  budget?: Budget | null;
}

export interface ArtifactAdded {
  refs?: Record<string, FileRef> | null;
  ref: string;
  mime_type: string;
  size: number;
  tool_call_id?: string | null;
}

export interface Attachment {
  ref: string;
  mime_type: string;
  name: string;
  size: number;
  sha256: string;
}

export interface Author {
  kind: "agent" | "mission" | "system" | "user";
  name?: string | null;
}

export interface BatchAnswer {
  action?: "approve" | "deny" | null;
  scope?: "once" | "session" | "workspace" | null;
  option_id?: string | null;
  reason?: string | null;
  input?: unknown;
  client_answer_id?: string | null;
  always?: boolean;
  approval_id: string;
}

export interface BatchAnswers {
  answers: Array<BatchAnswer>;
}

export interface BatchResult {
  approval_id: string;
  outcome?: string | null;
  by?: string | null;
  at?: string | null;
  status?: number | null;
  code?: string | null;
}

export interface BatchResults {
  results: Array<BatchResult>;
}

/** How much more a turn may take, beyond what it had. */
export interface Budget {
  steps?: number | null;
  cost?: number | null;
  seconds?: number | null;
}

export interface CallAnswer {
  action?: "approve" | "deny" | null;
  scope?: "once" | "session" | "workspace" | null;
  option_id?: string | null;
  reason?: string | null;
  input?: unknown;
  client_answer_id?: string | null;
  always?: boolean;
  turn_id: string;
  tool_call_id: string;
}

export interface CallError {
  code: string;
  message: string;
}

export interface CallRef {
  id: string;
  name: string;
}

export interface CancelTurn {
  turn_id?: string | null;
  keep_queue?: boolean;
}

export interface Capabilities {
  steer: boolean;
  resume: boolean;
  load: boolean;
  modes: boolean;
  models: boolean;
  commands: boolean;
  vision: boolean;
  tools: boolean;
  approvals: boolean;
  on_deny: "cancels" | "continues" | "ends_turn";
  compact?: boolean;
  undo?: boolean;
}

export interface ChangedFile {
  path: string;
  change: string;
  diff?: string | null;
  stale?: boolean;
}

export interface ChangedSettings {
  values: Record<string, unknown>;
  origins: Record<string, string>;
  schema: Record<string, unknown>;
  sandbox: Record<string, string | null>;
  restart_needed: Array<string>;
}

export interface Changes {
  files: Array<ChangedFile>;
}

export interface Choice {
  id: string;
  name: string;
  description?: string | null;
}

export interface ChosenId {
  id: string;
}

export interface Code {
  code: string;
  expires_at: string;
}

export interface CommandRun {
  command: string;
  exit_code: number | null;
  duration_ms: number;
  artifact?: string | null;
}

/** It is being done: `context_compacted` says when, or a notice `not_compacted` why not. */
export interface CompactAccepted {
}

export interface CompactRequest {
  instructions?: string | null;
}

export interface Conflict {
  path: string;
  reason: string;
}

export interface Context {
  request: Record<string, unknown>;
  categories: Array<ContextCategory>;
}

export interface ContextCategory {
  name: "conversation" | "files" | "instructions" | "tool_results";
  tokens: number;
}

export interface ContextCompacted {
  refs?: Record<string, FileRef> | null;
  summary: string;
  from_seq: number;
  to_seq: number;
  tokens_before: number;
  tokens_after: number;
  cause?: "near_limit" | "overflow" | "requested";
  written_by?: "model" | "rules";
  usage?: Usage | null;
  cost?: Cost | null;
}

/** A person wants the history shorter. It is done at once, or by the next turn's first step; what ends it is `context_compacted` or a notice `not_compacted`. */
export interface ContextCompactionRequested {
  refs?: Record<string, FileRef> | null;
  by: string;
  instructions?: string | null;
}

export interface ContextUsage {
  refs?: Record<string, FileRef> | null;
  message_count: number;
  tokens: number;
  source: "estimated" | "reported";
  limit: number | null;
  compressed: boolean;
  categories?: Array<ContextCategory> | null;
  step_id?: string | null;
  request_ref?: string | null;
}

export interface Cost {
  amount: number;
  currency: string;
}

export interface Counts {
  steps: number;
  tool_calls: number;
}

export interface Draft {
  text: string;
  attachments: Array<unknown>;
  rev: number;
}

export interface DraftSaved {
  rev: number;
}

export interface EditItem {
  parts?: Array<NewPart>;
  before?: string | null;
}

export interface EndedTurn {
  id: string;
  outcome: "cancelled" | "completed" | "failed" | "interrupted";
  ended_at: string;
  error?: ErrorInfo | null;
  files?: number;
}

export interface ErrorInfo {
  code: string;
  message: string;
}

export interface Events {
  events: Array<LoggedEvent>;
  next_after: number;
  head_seq: number;
}

export interface ExchangeReplied {
  refs?: Record<string, FileRef> | null;
  exchange_id: string;
  receipt: "answered" | "cancelled" | "expired" | "failed" | "refused";
  message?: Message | null;
  cause?: string | null;
}

export interface ExchangeSent {
  refs?: Record<string, FileRef> | null;
  exchange_id: string;
  role: "sender" | "target";
  peer: Peer;
  message_id: string;
  receipt: string;
  tool_call_id?: string | null;
}

export interface ExplainRule {
  tool: string;
  input: unknown;
  workspace: string;
}

export interface Explained {
  decision: "allow" | "ask" | "deny";
  by: string;
  uncovered?: Array<Uncovered> | null;
}

/** With `format=json`. `format=html` gives a page around it. */
export interface Export {
  format: 1;
  session: Session;
  events: Array<LoggedEvent>;
  files: Record<string, ExportedFile>;
}

export interface ExportedFile {
  mime_type: string;
  sha256: string;
  data: string;
}

export interface FailedTool {
  name: string;
  source: string;
  reason: string;
}

export interface FieldError {
  path: string;
  message: string;
}

export interface FileChange {
  path: string;
  change: "added" | "deleted" | "modified" | "renamed";
  added: number;
  removed: number;
  diff_ref?: string | null;
  renamed_from?: string | null;
}

/** A file of the session that holds what was too big for its event. */
export interface FileRef {
  ref: string;
  size: number;
  sha256: string;
}

export interface Files {
  files: Array<NamedFile>;
  truncated: boolean;
}

export interface FilesChanged {
  refs?: Record<string, FileRef> | null;
  files: Array<FileChange>;
  truncated_count: number;
}

export interface Folder {
  name: string;
  git: boolean;
}

export interface Folders {
  path: string;
  parent: string | null;
  folders: Array<Folder>;
  truncated: boolean;
}

export interface ForkAt {
  at_message_id?: string | null;
}

export interface ForkedFrom {
  session_id: string;
  message_id?: string | null;
}

export interface Found {
  hits: Array<Hit>;
  next_cursor: string | null;
  complete: boolean;
}

export interface GitState {
  branch: string | null;
  dirty: boolean;
}

export interface Health {
  ok: boolean;
  version: string;
  proof?: string | null;
}

/** One place where it stands: `before`, `match` and `after` are pieces of one text, by code points. */
export interface Hit {
  session_id: string;
  session_title: string | null;
  message_id: string | null;
  seq: number;
  role: string;
  ts: string;
  before: string;
  match: string;
  after: string;
}

export interface Inbox {
  items: Array<InboxItem>;
  as_of: unknown;
}

export interface InboxItem {
  id: string;
  kind: "approval" | "budget" | "login" | "plan" | "question" | "review" | "trust";
  session_id: string;
  session_title: string | null;
  turn_id: string | null;
  agent: string;
  title: string;
  requested_at: string;
  path: Array<string>;
  deadline?: string | null;
  data?: unknown;
}

/** A command that outlives its call, until it ends, is ended, or the session or the daemon ends. */
export interface JobInfo {
  id: string;
  session_id: string;
  call_id: string;
  command: string;
  pid: number;
  started_at: string;
  running: boolean;
  status: number | null;
  output: string;
}

export interface JobList {
  jobs: Array<JobInfo>;
}

export interface Location {
  path: string;
  line?: number | null;
}

export interface LoggedEvent {
  v: number;
  seq: number;
  ts: string;
  session_id: string;
  turn_id: string | null;
  type: string;
  data: Record<string, unknown>;
}

export interface LoggedIn {
  token: string;
  expires_at: string;
  scope: string;
}

export interface Login {
  code: string;
}

export interface Message {
  id: string;
  role: "assistant" | "system" | "tool" | "user";
  parts: Array<Part>;
  created_at: string;
  author: Author;
  tool_calls?: Array<ToolCall>;
  via?: string | null;
  interrupted?: boolean;
  client_message_id?: string | null;
  reasoning?: Reasoning | null;
}

export interface MessageAdded {
  refs?: Record<string, FileRef> | null;
  message: Message;
  delivery?: string | null;
  scope?: string | null;
  fingerprint?: string | null;
}

export interface MessageDelivered {
  refs?: Record<string, FileRef> | null;
  message_id: string;
  turn_id: string;
  step_id: string;
}

export interface MintedToken {
  id: string;
  name: string;
  scope: string;
  created_at: string;
  expires_at: string | null;
  parent: string | null;
  token: string;
}

export interface MissionSkipped {
  refs?: Record<string, FileRef> | null;
  mission_id: string;
  run_id: string;
  trigger: string;
  agent: string;
  reason?: string | null;
}

export interface MissionTriggered {
  refs?: Record<string, FileRef> | null;
  mission_id: string;
  run_id: string;
  trigger: string;
  agent: string;
  reason?: string | null;
}

export interface ModelFallback {
  refs?: Record<string, FileRef> | null;
  preferred: string;
  actual: string;
  reason: string;
}

export interface ModelInfo {
  name: string;
  base_url: string | null;
  model: string | null;
  found?: unknown;
  adopt?: string | null;
  missing?: string | null;
  fix?: string | null;
}

export interface ModelList {
  models: Array<ModelInfo>;
}

export interface ModelOutputCompleted {
  refs?: Record<string, FileRef> | null;
  message: Message;
  stop_reason?: string | null;
  usage?: Usage | null;
  cost?: Cost | null;
}

export interface ModelOutputDelta {
  refs?: Record<string, FileRef> | null;
  message_id: string;
  part_id: string;
  kind: "text" | "thinking";
  offset: number;
  text: string;
  data?: unknown;
}

export interface ModelOutputDiscarded {
  refs?: Record<string, FileRef> | null;
  message_id: string;
}

export interface ModelOutputStarted {
  refs?: Record<string, FileRef> | null;
  message_id: string;
  step_id: string;
}

export interface ModelResolved {
  refs?: Record<string, FileRef> | null;
  model: string;
  provider: string;
}

export interface NamedFile {
  path: string;
  kind: "file" | "folder";
}

export interface NewAttachment {
  name: string;
  data: string;
  mime_type?: string;
}

export interface NewCode {
  scope?: string;
}

export interface NewDraft {
  text?: string;
  attachments?: Array<unknown>;
  rev?: number;
  client?: string | null;
}

export interface NewPart {
  type: "audio" | "file" | "image" | "text";
  text?: string | null;
  ref?: string | null;
  mime_type?: string | null;
  name?: string | null;
}

export interface NewRule {
  decision: "allow" | "ask" | "deny";
  workspace: string;
  tool?: string | null;
  kind?: "ask" | "delegate" | "exec" | "network" | "read" | "write" | null;
  path?: string | null;
  command?: string | null;
  domain?: string | null;
  exact?: boolean;
}

export interface NewSession {
  workspace_path: string;
  system_prompt?: string | null;
  auto_run?: boolean;
  title?: string | null;
  agent?: string | null;
  model?: string | null;
  mode?: string | null;
  delivery?: "auto" | "interrupt" | "queue" | "steer" | null;
}

export interface NewSessionAnswer {
  session_id: string;
  session: Session;
}

export interface NewToken {
  scope?: string;
  name?: string | null;
  days?: number | null;
}

export interface Notice {
  refs?: Record<string, FileRef> | null;
  level: "error" | "info" | "warning";
  code: string;
  text: string;
}

export interface Option {
  id: string;
  action: "approve" | "deny";
  scope: "once" | "session" | "workspace";
  label: string;
  rule?: Rule | null;
  mode?: "ask" | "auto" | "edit" | "plan" | null;
}

export interface Output {
  text: string;
  offset: number;
  next_offset: number;
  total: number;
}

export interface Part {
  type: "audio" | "file" | "image" | "text" | "thinking" | "tool_call";
  id?: string | null;
  text?: string | null;
  ref?: string | null;
  mime_type?: string | null;
  name?: string | null;
  truncated?: boolean;
}

export interface Peer {
  agent: string;
  session_id: string;
}

export interface PlainHealth {
  ok: boolean;
}

export interface Plan {
  id: string;
  status: "approved" | "completed" | "executing" | "planned" | "rejected";
  items: Array<PlanItem>;
  text?: string | null;
}

export interface PlanItem {
  id: string;
  text: string;
  status: "done" | "dropped" | "in_progress" | "pending";
}

export interface PlanUpdated {
  refs?: Record<string, FileRef> | null;
  plan: Plan;
  run_by: "backend" | "daemon";
  tool_call_id?: string | null;
}

export interface PostMessage {
  parts: Array<NewPart>;
  role?: string;
  auto_run?: boolean | null;
  delivery?: "auto" | "interrupt" | "queue" | "steer" | null;
  client_message_id?: string | null;
  draft_rev?: number | null;
}

export interface Preview {
  command?: string | null;
  diff?: string | null;
  paths?: Array<string> | null;
  network?: string | null;
}

export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  errors?: Array<FieldError>;
}

export interface PutBack {
  path: string;
  action: "deleted" | "recreated" | "restored";
  diff: string;
}

export interface Question {
  id: string;
  header: string;
  text: string;
  type: "boolean" | "choice" | "integer" | "number" | "text" | "url";
  options: Array<QuestionOption>;
  multiple: boolean;
  free_text: boolean;
  required?: boolean | null;
  default?: unknown;
}

export interface QuestionAnswer {
  answers?: Record<string, Answer> | null;
  agent_decides?: boolean;
  declined?: boolean;
  reason?: string | null;
  client_answer_id?: string | null;
}

export interface QuestionAnswered {
  refs?: Record<string, FileRef> | null;
  question_id: string;
  cause: "agent_decides" | "cancelled" | "declined" | "default" | "expired" | "user";
  by: string;
  answers?: Record<string, Answer> | null;
  reason?: string | null;
  client_answer_id?: string | null;
}

export interface QuestionAsked {
  refs?: Record<string, FileRef> | null;
  question_id: string;
  questions: Array<Question>;
  tool_call_id?: string | null;
  deadline?: string | null;
}

export interface QuestionOption {
  label: string;
  description?: string | null;
  preview?: string | null;
}

export interface QuestionOutcome {
  question_id: string;
  cause: "agent_decides" | "cancelled" | "declined" | "default" | "expired" | "user";
  by: string;
  at: string;
  answers?: Record<string, unknown> | null;
}

export interface Queue {
  items: Array<QueueItem>;
  paused: boolean;
  reason?: string | null;
}

/** Order and membership in full. */
export interface QueueChanged {
  refs?: Record<string, FileRef> | null;
  items: Array<QueueEntry>;
  paused: boolean;
  reason?: string | null;
  steered?: Array<string>;
}

/** One item as `queue_changed` writes it: `message` only where the item is new or was edited in this event. */
export interface QueueEntry {
  id: string;
  turn_id: string;
  delivery: string;
  message_id: string;
  paused: boolean;
  message?: Message | null;
  scope?: string | null;
  fingerprint?: string | null;
}

export interface QueueItem {
  id: string;
  turn_id: string;
  delivery: string;
  message_id: string;
  paused: boolean;
  message?: Message | null;
}

/** `items` is left out in lists. */
export interface QueueSummary {
  paused: boolean;
  items?: Array<QueueItem>;
  reason?: string | null;
}

export interface ReadMark {
  seq: number;
}

/** How a provider gave the thinking of a message, since some must be given it back in that very form. */
export interface Reasoning {
  model: string;
  form?: "reasoning" | "reasoning_content" | "reasoning_details" | null;
  details?: Array<unknown>;
  calls?: Record<string, unknown>;
}

/** What is allowed, asked or denied; every field that is given must match. */
export interface Rule {
  decision: "allow" | "ask" | "deny";
  id?: string | null;
  tool?: string | null;
  kind?: "ask" | "delegate" | "exec" | "network" | "read" | "write" | null;
  path?: string | null;
  command?: string | null;
  domain?: string | null;
  exact?: boolean;
  files?: Record<string, string> | null;
  unconfined?: boolean;
  turn_id?: string | null;
}

export interface RuleAdded {
  refs?: Record<string, FileRef> | null;
  rule: Record<string, unknown>;
  by: string;
  approval_id?: string | null;
}

export interface RuleInfo {
  decision: "allow" | "ask" | "deny";
  id?: string | null;
  tool?: string | null;
  kind?: "ask" | "delegate" | "exec" | "network" | "read" | "write" | null;
  path?: string | null;
  command?: string | null;
  domain?: string | null;
  exact?: boolean;
  files?: Record<string, string> | null;
  unconfined?: boolean;
  turn_id?: string | null;
  workspace?: string | null;
}

export interface RuleList {
  rules: Array<RuleInfo>;
}

export interface RuleRemoved {
  refs?: Record<string, FileRef> | null;
  rule_id: string;
  by: string;
}

export interface Session {
  id: string;
  created_at: string;
  updated_at: string;
  status: "active" | "canceled" | "completed" | "failed" | "waiting_approval";
  workspace_path: string;
  system_prompt: string | null;
  last_turn_id: string | null;
  title: string | null;
  agent: string;
  backend: string;
  model: string | null;
  mode: string;
  delivery: string;
  head_seq: number;
  read_seq: number;
  archived: boolean;
  queue: QueueSummary;
  waiting: Array<InboxItem>;
  usage: Usage | null;
  cost: Cost | null;
  capabilities: Capabilities;
  available_modes?: Array<Choice>;
  available_models?: Array<Choice>;
  available_commands?: Array<SlashCommand>;
  parent_session_id?: string | null;
  forked_from?: ForkedFrom | null;
  read_only?: string | null;
  running_turn_id?: string | null;
  unread?: boolean;
  activity?: Activity | null;
  last_turn?: EndedTurn | null;
  children_running?: number;
  git?: GitState | null;
}

export interface SessionCanceled {
  refs?: Record<string, FileRef> | null;
  turn_id: string;
  by: string;
}

export interface SessionCompleted {
  refs?: Record<string, FileRef> | null;
  by: string;
}

export interface SessionCreated {
  refs?: Record<string, FileRef> | null;
  session: SessionInfo;
}

export interface SessionFailed {
  refs?: Record<string, FileRef> | null;
  turn_id: string;
  error: ErrorInfo;
}

/** What `session_created` says and `session_updated` changes: the facts of a session that a person or its agent chose. */
export interface SessionInfo {
  id: string;
  created_at: string;
  workspace_path: string;
  system_prompt: string | null;
  auto_run: boolean;
  title: string | null;
  agent: string;
  backend: string;
  model: string | null;
  mode: string;
  delivery: string;
  capabilities: Capabilities;
  archived?: boolean;
  title_set?: boolean;
  available_modes?: Array<Choice>;
  available_models?: Array<Choice>;
  available_commands?: Array<SlashCommand>;
  parent_session_id?: string | null;
  forked_from?: ForkedFrom | null;
}

export interface SessionList {
  sessions: Array<Session>;
  next_cursor: string | null;
}

export interface SessionPatch {
  title?: string | null;
  delivery?: "auto" | "interrupt" | "queue" | "steer";
  mode?: string;
  model?: string | null;
  archived?: boolean;
  system_prompt?: string | null;
}

export interface SessionUpdated {
  refs?: Record<string, FileRef> | null;
  /** Only the changed fields: absent is unchanged, null is cleared. */
  session: {
    id?: string | null;
    created_at?: string | null;
    workspace_path?: string | null;
    system_prompt?: string | null | null;
    auto_run?: boolean | null;
    title?: string | null | null;
    agent?: string | null;
    backend?: string | null;
    model?: string | null | null;
    mode?: string | null;
    delivery?: string | null;
    capabilities?: Capabilities | null;
    archived?: boolean | null;
    title_set?: boolean | null;
    available_modes?: Array<Choice> | null;
    available_models?: Array<Choice> | null;
    available_commands?: Array<SlashCommand> | null;
    parent_session_id?: string | null | null;
    forked_from?: ForkedFrom | null | null;
  };
}

export interface Settings {
  values: Record<string, unknown>;
  origins: Record<string, string>;
  schema: Record<string, unknown>;
  sandbox: Record<string, string | null>;
}

export interface SettingsPatch {
  values: Record<string, unknown>;
}

export interface SlashCommand {
  name: string;
  description?: string | null;
  input_hint?: string | null;
}

export interface StartedTurn {
  turn_id: string;
}

export interface StepStarted {
  refs?: Record<string, FileRef> | null;
  step_id: string;
  index: number;
}

export interface SubagentFinished {
  refs?: Record<string, FileRef> | null;
  child_session_id: string;
  tool_call_id: string;
  outcome: "cancelled" | "completed" | "failed" | "interrupted";
  summary: string;
  usage: Usage;
  cost?: Cost | null;
}

export interface SubagentSpawned {
  refs?: Record<string, FileRef> | null;
  child_session_id: string;
  child_turn_id: string;
  tool_call_id: string;
  agent: string;
  task: string;
}

export interface TaskFinalized {
  refs?: Record<string, FileRef> | null;
  summary: string;
  verified: boolean | null;
  files: Array<string>;
  duration_ms: number;
  tool_call_id: string;
  cost?: Cost | null;
}

export interface Ticket {
  ticket: string;
  expires_at: string;
}

export interface TokenInfo {
  id: string;
  name: string;
  scope: string;
  created_at: string;
  expires_at: string | null;
  parent: string | null;
}

export interface TokenList {
  tokens: Array<TokenInfo>;
}

export interface ToolCall {
  id: string;
  name: string;
  input: unknown;
  input_raw?: string | null;
}

export interface ToolCallCompleted {
  refs?: Record<string, FileRef> | null;
  tool_call: CallRef;
  tool_result: ToolResult;
  duration_ms: number;
}

export interface ToolCallRunning {
  refs?: Record<string, FileRef> | null;
  tool_call_id: string;
}

export interface ToolCallStarted {
  refs?: Record<string, FileRef> | null;
  tool_call: ToolCall;
  kind: "ask" | "delegate" | "exec" | "network" | "read" | "write";
  title: string;
  locations: Array<Location>;
  run_by: "backend" | "daemon";
  message_id: string | null;
  step_id: string | null;
  waits?: boolean;
}

export interface ToolInfo {
  name: string;
}

export interface ToolList {
  tools: Array<ToolInfo>;
  failed?: Array<FailedTool>;
}

export interface ToolOutputDelta {
  refs?: Record<string, FileRef> | null;
  tool_call_id: string;
  stream: "output" | "stderr" | "stdout";
  offset: number;
  text: string;
}

export interface ToolResult {
  id: string;
  ok: boolean;
  parts: Array<Part>;
  artifacts?: Array<string>;
  error?: CallError | null;
  truncated?: boolean;
}

export interface Transcript {
  as_of_seq: number;
  entries: Array<Record<string, unknown>>;
  open: Record<string, unknown>;
  earlier: unknown;
  later: unknown;
}

export interface Tree {
  entries: Array<TreeEntry>;
  truncated: boolean;
}

export interface TreeEntry {
  path: string;
  kind: string;
  size?: number | null;
}

export interface TurnCancelRequested {
  refs?: Record<string, FileRef> | null;
  by: string;
  cause: "parent" | "superseded" | "user_cancel";
  keep_queue: boolean;
}

/** The one end of a turn. */
export interface TurnCompleted {
  refs?: Record<string, FileRef> | null;
  outcome: "cancelled" | "completed" | "failed" | "interrupted";
  stop_reason: "cancelled" | "end_turn" | "error" | "interrupted" | "limit" | "max_tokens" | "refusal";
  usage: Usage;
  duration_ms: number;
  counts: Counts;
  cause?: "crash" | "parent" | "shutdown" | "superseded" | "user_cancel" | null;
  error?: ErrorInfo | null;
  cost?: Cost | null;
}

export interface TurnParked {
  refs?: Record<string, FileRef> | null;
  waiting: Array<string>;
}

export interface TurnRef {
  turn_id: string | null;
}

export interface TurnStarted {
  refs?: Record<string, FileRef> | null;
  trigger: "answer" | "callback" | "exchange" | "mission" | "queue" | "retry" | "steer" | "subagent" | "user";
  message_ids: Array<string>;
  agent: string;
  backend: string;
  model?: string | null;
  attempt_of?: string | null;
  scope?: string | null;
}

export interface TurnUndone {
  refs?: Record<string, FileRef> | null;
  turn_id: string;
  by: string;
  redo: boolean;
  files: Array<UndoneFile>;
  truncated_count?: number;
}

/** A part of the call that no rule allows, and why none does. */
export interface Uncovered {
  text: string;
  why: string;
}

export interface UndoTurn {
  preview?: boolean;
  redo?: boolean;
  paths?: Array<string> | null;
}

export interface Undone {
  files: Array<PutBack>;
  conflicts: Array<Conflict>;
}

export interface UndoneFile {
  path: string;
  action: "deleted" | "recreated" | "restored";
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cached_tokens?: number | null;
  reasoning_tokens?: number | null;
  estimated?: boolean;
}

export interface VerifyCompleted {
  refs?: Record<string, FileRef> | null;
  ok: boolean;
  clean: boolean;
  dirty: Array<string>;
  commands: Array<CommandRun>;
  workspace_hash: string;
  tool_call_id: string;
}

export interface WorkspaceInfo {
  path: string;
  name: string;
  sessions: number;
  last_used_at: string | null;
  trusted: boolean;
  git?: GitState | null;
}

export interface WorkspaceList {
  workspaces: Array<WorkspaceInfo>;
}

/** A token that may approve made a session here; from now on one that may only prompt can do so too. */
export interface WorkspaceUsed {
  refs?: Record<string, FileRef> | null;
  path: string;
  by: string;
}

/** The `data` of each type of event. */
export interface EventData {
  session_created: SessionCreated;
  session_updated: SessionUpdated;
  session_completed: SessionCompleted;
  session_failed: SessionFailed;
  session_canceled: SessionCanceled;
  message_added: MessageAdded;
  message_delivered: MessageDelivered;
  queue_changed: QueueChanged;
  turn_started: TurnStarted;
  turn_cancel_requested: TurnCancelRequested;
  turn_parked: TurnParked;
  model_resolved: ModelResolved;
  model_fallback: ModelFallback;
  step_started: StepStarted;
  turn_completed: TurnCompleted;
  model_output_started: ModelOutputStarted;
  model_output_delta: ModelOutputDelta;
  model_output_completed: ModelOutputCompleted;
  model_output_discarded: ModelOutputDiscarded;
  tool_call_started: ToolCallStarted;
  tool_call_running: ToolCallRunning;
  tool_output_delta: ToolOutputDelta;
  tool_call_completed: ToolCallCompleted;
  approval_requested: ApprovalRequested;
  approval_granted: ApprovalGranted;
  approval_denied: ApprovalDenied;
  question_asked: QuestionAsked;
  question_answered: QuestionAnswered;
  plan_updated: PlanUpdated;
  subagent_spawned: SubagentSpawned;
  subagent_finished: SubagentFinished;
  exchange_sent: ExchangeSent;
  exchange_replied: ExchangeReplied;
  files_changed: FilesChanged;
  turn_undone: TurnUndone;
  verify_completed: VerifyCompleted;
  task_finalized: TaskFinalized;
  artifact_added: ArtifactAdded;
  context_usage: ContextUsage;
  context_compaction_requested: ContextCompactionRequested;
  context_compacted: ContextCompacted;
  mission_triggered: MissionTriggered;
  mission_skipped: MissionSkipped;
  notice: Notice;
  rule_added: RuleAdded;
  rule_removed: RuleRemoved;
  workspace_used: WorkspaceUsed;
}

export type EventType = keyof EventData;

interface Head<T extends EventType> {
  v: number;
  ts: string;
  session_id: string;
  turn_id: string | null;
  type: T;
  data: EventData[T];
}

/** One line of a log. Readers keep and skip types that they do not know. */
export type Logged = { [T in EventType]: Head<T> & { seq: number } }[EventType];

/** Text in flight: like the logged event, without a `seq`, until the log brings it. */
export type Provisional = { [T in "model_output_delta" | "tool_output_delta"]: Head<T> }["model_output_delta" | "tool_output_delta"];
