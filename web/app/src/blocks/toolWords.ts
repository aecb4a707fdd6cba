import type { Block, Call, Json } from "../shapes";
import type { IconName } from "../ui/icons";

/** What a call is called on the screen: a verb, and what it is done to. Also for tools that are not ours. */

const VERBS: [RegExp, string][] = [
  [/^(read|read_file|cat|view|open_file)$/i, "Read"],
  [/^(edit|multiedit|apply_patch|patch|str_replace.*|update_file)$/i, "Edit"],
  [/^(write|write_file|create_file)$/i, "Write"],
  [/^(shell|bash|exec|exec_command|run|run_command|local_shell|terminal)$/i, "Run"],
  [/^(search|grep|glob|find|rg)$/i, "Search"],
  [/^(repo_tree|ls|list|list_dir)$/i, "List"],
  [/^repo_map$/i, "Map"],
  [/^git_status$/i, "Git status"],
  [/^verify$/i, "Verify"],
  [/^diagram$/i, "Draw"],
  [/^(web_?fetch|fetch|http.*)$/i, "Fetch"],
  [/^(web_?search)$/i, "Search the web"],
  [/^(spawn_agent|task|agent)$/i, "Delegate"],
  [/^agents_message$/i, "Message"],
  [/^(update_plan|todowrite|todo.*)$/i, "Plan"],
  [/^(ask_user)$/i, "Ask"],
];

export function verb(call: { name: string; title?: string }): string {
  return VERBS.find(([pattern]) => pattern.test(call.name))?.[1] ?? call.name;
}

const SUBJECTS = ["command", "cmd", "path", "file_path", "filePath", "pattern", "query", "url", "task", "description", "to"];

export function argument(call: { name: string; title?: string; input: Json }): string {
  if (typeof call.input.patch === "string") return patched(call.input.patch);
  for (const key of SUBJECTS) {
    const value = call.input[key];
    if (typeof value === "string" && value !== "") return value + range(call.input);
    if (Array.isArray(value) && value.every(one => typeof one === "string")) return value.join(" ");
  }
  return call.title && call.title !== call.name && call.title !== verb(call) ? call.title : "";
}

function range(input: Json): string {
  if (typeof input.start_line !== "number") return "";
  return `:${input.start_line}${typeof input.end_line === "number" ? `-${input.end_line}` : ""}`;
}

function patched(patch: string): string {
  const named = [...patch.matchAll(/^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b\/)?)(.+)$/gm)].map(found => found[1]);
  return named.filter(name => name !== "/dev/null").join(", ") || plainPath(patch);
}

export type ToolState = "pending" | "success" | "error" | "interrupted" | "truncated" | "agent-callback";

export function stateOf(call: Call): ToolState {
  if (call.state === "interrupted" || call.state === "error") return call.state;
  if (call.kind === "delegate") return call.state === "pending" ? "pending" : "agent-callback";
  if (call.truncated) return "truncated";
  return call.state;
}

export const STATES: Record<ToolState, { icon: IconName; said: string }> = {
  pending: { icon: "ring", said: "Running:" },
  success: { icon: "check", said: "Succeeded:" },
  error: { icon: "bang", said: "Failed:" },
  interrupted: { icon: "warn", said: "Interrupted:" },
  truncated: { icon: "cut", said: "Truncated:" },
  "agent-callback": { icon: "reply", said: "Replied:" },
};

const ERRORS: Record<string, string> = {
  tool_error: "failed",
  tool_denied: "denied",
  tool_skipped: "skipped",
  tool_timeout: "timed out",
  unknown_tool: "unknown tool",
  invalid_arguments: "bad arguments",
  rate_limit_tools: "too many calls",
};

export function errorWord(code: string): string {
  return ERRORS[code] ?? code;
}

/** What came out: the streams as they were printed, else the result's own words. */
export function outputOf(block: Block, tail: string): string {
  const printed = (block.call?.output ?? []).map(piece => piece.text).join("") + tail;
  if (printed !== "") return printed;
  return (block.call?.result?.parts ?? []).map(part => part.text ?? "").join("\n");
}

/** Search and replace: the path stands on a line of its own before the first block. */
function plainPath(patch: string): string {
  const first = patch.split("\n", 1)[0] ?? "";
  return /^[<*@-]/.test(first) ? "" : first.trim();
}
