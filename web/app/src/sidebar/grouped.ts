import type { SessionRow } from "../shapes";
import { folderName } from "../text/format";

export interface Group {
  key: string;
  name: string;
  sessions: SessionRow[];
}

/** Who needs somebody first, over all projects; then the projects, and in each the latest first. */
export function grouped(sessions: readonly SessionRow[]): { needs: SessionRow[]; projects: Group[] } {
  const listed = sessions.filter(one => !one.archived && !one.parent_session_id);
  const needs = listed.filter(one => (one.waiting?.length ?? 0) > 0 || one.status === "waiting_approval");
  const projects = new Map<string, Group>();
  for (const session of listed) {
    if (needs.includes(session)) continue;
    const key = session.workspace_path;
    const group = projects.get(key) ?? { key, name: folderName(key), sessions: [] };
    group.sessions.push(session);
    projects.set(key, group);
  }
  return { needs, projects: [...projects.values()] };
}
