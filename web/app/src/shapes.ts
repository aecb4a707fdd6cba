/** What the transcript's blocks hold, as `API.md` writes it. The fold keeps them as plain JSON; here they have names. */

export type Json = Record<string, unknown>;

export type Ref = { ref: string; size: number; sha256?: string };
export type Refs = Record<string, Ref>;

export interface Part {
  type: "text" | "thinking" | "image" | "audio" | "file" | "tool_call";
  id?: string;
  text?: string;
  ref?: string;
  mime_type?: string;
  name?: string;
  truncated?: boolean;
}

export interface Message {
  id: string;
  role: "user" | "assistant" | "system" | "tool";
  parts: Part[];
  created_at: string;
  author: { kind: "user" | "agent" | "system" | "mission"; name?: string };
  via?: string;
  interrupted?: boolean;
  client_message_id?: string;
}

export interface CallApproval {
  id: string;
  status: "waiting" | "granted" | "denied";
  by?: string;
  cause?: string;
  scope?: string;
  reason?: string;
  input?: Json;
}

export interface Call {
  id: string;
  name: string;
  input: Json;
  kind: "read" | "write" | "exec" | "network" | "delegate" | "ask";
  title: string;
  run_by: "daemon" | "backend";
  state: "pending" | "success" | "error" | "interrupted";
  truncated: boolean;
  output: { stream: string; text: string }[];
  output_chars: Record<string, number>;
  started_at?: string;
  duration_ms?: number;
  result?: { ok: boolean; parts: Part[]; artifacts?: unknown[]; error?: Problem; truncated?: boolean };
  approval?: CallApproval;
  refs?: Refs;
}

export interface Problem {
  code: string;
  message: string;
}

export interface Block {
  kind: string;
  part?: Part;
  interrupted?: boolean;
  started_at?: string;
  ended_at?: string;
  call?: Call;
  id?: string;
  data?: Json;
}

export interface Entry {
  message: Message | null;
  blocks: Block[];
  turn_id?: string;
  delivery?: "waiting" | "delivered" | "own_turn";
  refs?: Refs;
}

export interface AskOption {
  id: string;
  action: "approve" | "deny";
  scope: "once" | "session" | "workspace";
  label: string;
  rule?: string | Json;
}

export interface ApprovalAsk {
  approval_id: string;
  subject: "tool" | "plan" | "review" | "budget" | "login" | "trust";
  tool_call: { id: string; name: string; input: Json } | null;
  kind?: string;
  reason?: string;
  preview?: { command?: string; diff?: string; paths?: string[]; network?: string | null };
  options: AskOption[];
  deadline?: string;
  refs?: Refs;
}

export interface Question {
  id: string;
  header?: string;
  text: string;
  type: "choice" | "text" | "number" | "integer" | "boolean" | "url";
  options?: { label: string; description?: string; preview?: string }[];
  multiple?: boolean;
  free_text?: boolean;
  required?: boolean;
  default?: unknown;
}

export interface QuestionAsk {
  question_id: string;
  tool_call_id?: string;
  questions: Question[];
  deadline?: string;
}

export interface Answer {
  selected?: string[];
  text?: string;
  value?: unknown;
}

export interface Usage {
  input_tokens: number;
  output_tokens: number;
  cached_tokens?: number;
  reasoning_tokens?: number;
}

export interface Cost {
  amount: number;
  currency: string;
}

export interface OpenTurn {
  id: string;
  started_at: string;
  cancel_requested?: boolean;
  agent?: string;
  backend?: string;
  trigger?: string;
}

export interface ChangedFile {
  path: string;
  change: "added" | "modified" | "deleted" | "renamed";
  added: number;
  removed: number;
  diff_ref?: string;
}

export interface PlanItem {
  id?: string;
  text: string;
  status: "pending" | "in_progress" | "done" | "dropped";
}

export interface Plan {
  id: string;
  status: "planned" | "approved" | "executing" | "completed" | "rejected";
  text?: string;
  items: PlanItem[];
}

export interface QueueItem {
  id: string;
  turn_id?: string;
  delivery?: string;
  message_id: string;
  paused?: boolean;
  message?: Message;
}

export interface InboxItem {
  id: string;
  kind: "approval" | "question" | "plan" | "review" | "budget" | "login" | "trust";
  session_id: string;
  session_title?: string;
  agent?: string;
  title: string;
  requested_at: string;
  deadline?: string;
  path?: string[];
  data?: Json;
}

export interface Capabilities {
  steer?: boolean;
  modes?: boolean;
  models?: boolean;
  commands?: boolean;
  compact?: boolean;
  undo?: boolean;
  vision?: boolean;
}

export interface Choice {
  id: string;
  name: string;
  description?: string;
}

export interface SessionRow {
  id: string;
  title?: string;
  status: "active" | "waiting_approval" | "failed" | "completed" | "canceled";
  workspace_path: string;
  updated_at: string;
  created_at?: string;
  agent: string;
  backend?: string;
  model?: string | null;
  mode?: string;
  delivery?: "queue" | "steer" | "interrupt" | "auto";
  archived?: boolean;
  head_seq: number;
  read_seq: number;
  unread?: boolean;
  waiting?: InboxItem[];
  activity?: { text: string; since: string };
  last_turn?: { id: string; outcome: string; error?: Problem; ended_at: string; files?: number };
  children_running?: number;
  git?: { branch: string; dirty: boolean };
  queue?: { items?: QueueItem[]; paused: boolean; reason?: string };
  usage?: Usage;
  cost?: Cost;
  capabilities?: Capabilities;
  available_modes?: Choice[];
  available_models?: Choice[];
  available_commands?: { name: string; description?: string; input_hint?: string }[];
  parent_session_id?: string;
  forked_from?: { session_id: string; message_id?: string };
}
