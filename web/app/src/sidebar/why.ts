import type { InboxItem, SessionRow } from "../shapes";
import { plural } from "../text/format";

const ASKS: Record<InboxItem["kind"], [string, (n: number) => string]> = {
  approval: ["Approve a call", n => `Approve ${n} calls`],
  question: ["Answer a question", n => `Answer ${n} questions`],
  plan: ["Plan ready for review", n => `${n} plans to review`],
  review: ["Review a change", n => `Review ${n} changes`],
  budget: ["Budget used up", n => `${n} budgets used up`],
  login: ["Sign-in needed", n => `${n} sign-ins needed`],
  trust: ["Trust this folder?", n => `${n} folders to trust`],
};

/** One line on why a session stands where it stands. */
export function why(session: SessionRow): string {
  const waiting = session.waiting ?? [];
  if (waiting.length > 0) return asks(waiting);
  if (session.activity) {
    const others = session.children_running ? ` · ${plural(session.children_running, "agent")}` : "";
    return session.activity.text + others;
  }
  const last = session.last_turn;
  if (session.status === "failed") return `Stopped: ${last?.error?.message ?? "the turn failed"}`;
  if (session.queue?.paused) return "Queue paused";
  if (session.unread && last) return ["Done", last.files ? plural(last.files, "file") : "", "unread"].filter(Boolean).join(" · ");
  return "";
}

function asks(waiting: InboxItem[]): string {
  const kinds = [...new Set(waiting.map(item => item.kind))];
  const words = kinds.map(kind => {
    const n = waiting.filter(item => item.kind === kind).length;
    const [one, many] = ASKS[kind] ?? ["Something waits", (all: number) => `${all} things wait`];
    return n === 1 ? one : many(n);
  });
  return words.map((word, place) => (place === 0 ? word : word.charAt(0).toLowerCase() + word.slice(1))).join(" · ");
}
