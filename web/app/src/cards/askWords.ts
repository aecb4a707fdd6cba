import { visible } from "@palaver/client";
import type { ApprovalAsk, AskOption } from "../shapes";

const WANTS: Record<string, string> = {
  read: "wants to read something",
  write: "wants to change files",
  exec: "wants to run a command",
  network: "wants to use the network",
  delegate: "wants to start another agent",
  ask: "wants to ask",
};

/** The card's title: ours to say, with the agent's name in it. */
export function headline(ask: ApprovalAsk, agent: string): string {
  const who = visible(agent);
  switch (ask.subject) {
    case "plan":
      return `${who} proposes a plan`;
    case "review":
      return `${who} has a change for review`;
    case "budget":
      return `${who} has used up its budget`;
    case "login":
      return `${who} needs to sign in`;
    case "trust":
      return "Trust what this folder's files say?";
    default:
      return `${who} ${WANTS[ask.kind ?? ""] ?? `wants to use ${visible(ask.tool_call?.name ?? "a tool")}`}`;
  }
}

/** The rule that an option would store, whole: in a few words where these say all of it. */
export function ruleOf({ rule }: AskOption): string {
  if (!rule) return "";
  if (typeof rule === "string") return rule;
  const { decision, tool, ...what } = rule;
  const [only, ...others] = Object.entries(what).filter(([, value]) => value !== null && value !== undefined);
  if (decision !== "allow" || others.length > 0) return JSON.stringify(rule);
  if (only === undefined) return `${tool}`;
  return only[0] === "command" ? String(only[1]) : [tool, only[0], only[1]].filter(Boolean).join(" ");
}

const WHERE = { once: "", session: "in this session", workspace: "here" } as const;

/** What an option says: with the rule that it would store, whole. */
export function optionWords(option: AskOption, subject: ApprovalAsk["subject"]): { before: string; rule: string; after: string } {
  const rule = ruleOf(option);
  if (subject !== "tool" && option.label) return { before: option.label, rule, after: "" };
  if (option.scope === "once" && option.action === "approve") return { before: "Allow once", rule: "", after: "" };
  if (rule) return { before: "Always allow", rule, after: WHERE[option.scope] };
  return { before: option.label, rule: "", after: "" };
}
