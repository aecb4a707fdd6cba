import type { Page } from "../app/page";
import type { SessionRow } from "../shapes";
import { markOf } from "../sidebar/Dot";
import { why } from "../sidebar/why";
import { folderName } from "../text/format";
import type { IconName } from "../ui/icons";

export interface Item {
  id: string;
  group: string;
  label: string;
  detail?: string;
  keys?: string;
  icon?: IconName;
  session?: SessionRow;
  act: () => void;
}

/** Everything that can be reached by typing: what waits first, then this session, then all sessions. */
export function items(page: Page, sessions: readonly SessionRow[], current: SessionRow | undefined, keys: Record<string, string>): Item[] {
  const waiting = sessions
    .filter(session => markOf(session) === "need")
    .map(session => toSession(page, session, "Waiting for you", `${session.title || "New session"}: ${why(session)}`));
  return [
    ...waiting,
    ...(current ? ofSession(page, current) : []),
    ...ofPage(page, keys),
    ...sessions.map(session => toSession(page, session, "Sessions")),
  ];
}

function toSession(page: Page, session: SessionRow, group: string, label = session.title || "New session"): Item {
  return {
    id: `${group}:${session.id}`,
    group,
    label,
    detail: folderName(session.workspace_path),
    session,
    act: () => page.go(session.id),
  };
}

function ofSession(page: Page, session: SessionRow): Item[] {
  const group = "This session";
  const ask = (method: string, rest: string, body: unknown = {}) =>
    page.daemon.ask(method, `/v1/sessions/${session.id}${rest}`, body).catch(page.failed);
  const found: Item[] = [
    {
      id: "changes",
      group,
      label: "Review the changed files",
      icon: "diff",
      act: () => page.show({ kind: "of-session", what: { kind: "changes" } }),
    },
    {
      id: "search-here",
      group,
      label: "Search in this session",
      icon: "search",
      act: () => page.show({ kind: "search", session: session.id }),
    },
    { id: "stop", group, label: "Stop the agent", keys: "Esc Esc", icon: "stop", act: () => void ask("POST", "/cancel") },
    { id: "fork", group, label: "Fork from here", icon: "branch", act: () => void page.fork(session.id) },
    { id: "rename", group, label: "Rename this session", icon: "edit", act: () => page.show({ kind: "rename", session }) },
    { id: "export", group, label: "Export as HTML", icon: "file", act: () => void page.save(session, "html") },
    { id: "archive", group, label: "Archive this session", icon: "archive", act: () => page.archive(session, true) },
    { id: "delete", group, label: "Delete this session", icon: "trash", act: () => page.remove(session) },
  ];
  for (const mode of session.available_modes ?? []) {
    found.push({
      id: `mode:${mode.id}`,
      group,
      label: `Mode: ${mode.name}`,
      icon: "shield",
      act: () => void ask("PATCH", "", { mode: mode.id }),
    });
  }
  for (const model of session.available_models ?? []) {
    found.push({
      id: `model:${model.id}`,
      group,
      label: `Model: ${model.name}`,
      icon: "bolt",
      act: () => void ask("PATCH", "", { model: model.id }),
    });
  }
  return found;
}

function ofPage(page: Page, keys: Record<string, string>): Item[] {
  const group = "Palaver";
  return [
    { id: "new", group, label: "New session", icon: "plus", keys: keys.new ?? "", act: () => page.show({ kind: "new" }) },
    { id: "search", group, label: "Search everything", icon: "search", keys: keys.search ?? "", act: () => page.show({ kind: "search" }) },
    { id: "theme", group, label: "Switch between light and dark", icon: "moon", act: page.switchTheme },
    { id: "settings", group, label: "Settings", icon: "gear", act: () => page.show({ kind: "settings" }) },
    { id: "help", group, label: "Keys and commands", icon: "ask", act: () => page.show({ kind: "help" }) },
    { id: "sign-out", group, label: "Sign out", icon: "x", act: page.signOut },
  ];
}

/** Each word of the query somewhere in it, the beginning of a word before its middle. */
export function matching(all: Item[], query: string): Item[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return all.slice(0, 60);
  const seen = new Set<string>();
  const scored: { item: Item; score: number }[] = [];
  for (const item of all) {
    const text = `${item.label} ${item.detail ?? ""}`.toLowerCase();
    if (!words.every(word => text.includes(word))) continue;
    if (item.session) {
      if (seen.has(item.session.id)) continue;
      seen.add(item.session.id);
    }
    const score = words.filter(word => new RegExp(`(^|\\W)${word.replace(/[^\w]/g, "\\$&")}`).test(text)).length;
    scored.push({ item, score });
  }
  const groups = [...new Set(scored.map(one => one.item.group))];
  return scored
    .sort((a, b) => groups.indexOf(a.item.group) - groups.indexOf(b.item.group) || b.score - a.score)
    .map(one => one.item)
    .slice(0, 60);
}
