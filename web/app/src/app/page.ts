import { createContext, useContext } from "react";
import type { Daemon } from "../daemon/daemon";
import type { SessionRow } from "../shapes";
import type { Dialog as SessionDialog } from "./here";

/** What any part of the page may ask of the page. One value for the page's whole life. */
export interface Page {
  daemon: Daemon;
  /** To a session, and there to a message. */
  go: (sessionId: string | null, messageId?: string) => void;
  show: (what: PageDialog | null) => void;
  switchTheme: () => void;
  /** `fresh`: nothing of it is kept, since what is sent again was the first thing said. */
  fork: (sessionId: string, atMessageId?: string, draft?: string, fresh?: boolean) => Promise<void>;
  archive: (session: SessionRow, archived: boolean) => void;
  remove: (session: SessionRow) => void;
  rename: (session: SessionRow, title: string) => Promise<void>;
  save: (session: SessionRow, format: string) => Promise<void>;
  signOut: () => void;
  /** Says what went wrong. */
  failed: (error: unknown) => void;
}

export type PageDialog =
  | { kind: "new"; workspace?: string; agent?: string }
  | { kind: "palette"; query?: string }
  | { kind: "search"; session?: string }
  | { kind: "settings" }
  | { kind: "help" }
  | { kind: "rename"; session: SessionRow }
  | { kind: "of-session"; what: SessionDialog };

export const PageContext = createContext<Page | null>(null);

export function usePage(): Page {
  const page = useContext(PageContext);
  if (page === null) throw new Error("There is no page around this");
  return page;
}
