import { useMemo } from "react";
import type { Connected } from "../daemon/connection";
import { wordsOf } from "../daemon/daemon";
import type { SessionRow } from "../shapes";
import type { Announce } from "./announce";
import type { Page, PageDialog } from "./page";
import { goTo } from "./route";
import { revoke } from "./signIn";
import { theme } from "./theme";

/** What any part of the page may ask of it, on one value that stays the same. */
export function usePageActions({
  connected,
  say,
  show,
  aim,
  begin,
  signedOut,
}: {
  connected: Connected;
  say: Announce;
  show: (what: PageDialog | null) => void;
  aim: (messageId: string | null) => void;
  begin: (words: string, commit: () => void, takeBack: () => void) => void;
  signedOut: () => void;
}): Page {
  return useMemo(() => {
    const { daemon, sessions } = connected;
    const failed = (error: unknown) => say(wordsOf(error), "alert");
    const path = (session: SessionRow) => `/v1/sessions/${session.id}`;
    const go = (sessionId: string | null, messageId?: string) => {
      document.getElementById("app")?.classList.remove("nav");
      goTo(sessionId);
      aim(messageId ?? null);
    };
    const archive = (session: SessionRow, archived: boolean) => {
      const set = (to: boolean) => daemon.ask<SessionRow>("PATCH", path(session), { archived: to }).then(row => sessions.put(row), failed);
      void set(archived);
      if (archived)
        begin(
          `Archived “${session.title || "New session"}”`,
          () => {},
          () => void set(false),
        );
    };
    return {
      daemon,
      go,
      show,
      failed,
      archive,
      switchTheme: theme.toggle,
      fork: async (sessionId, atMessageId, draft, fresh) => {
        try {
          const source = sessions.row(sessionId);
          const answer = fresh
            ? await daemon.ask<{ session_id: string }>("POST", "/v1/sessions", {
                workspace_path: source?.workspace_path,
                agent: source?.agent,
              })
            : await daemon.ask<{ session_id: string }>(
                "POST",
                `/v1/sessions/${sessionId}/fork`,
                atMessageId ? { at_message_id: atMessageId } : {},
              );
          if (draft) connected.draft(answer.session_id).write({ text: draft });
          go(answer.session_id);
        } catch (error) {
          failed(error);
        }
      },
      remove: session => {
        sessions.hide(session.id, true);
        if (location.pathname === `/s/${session.id}`) go(null);
        begin(
          `Deleted “${session.title || "New session"}”`,
          () =>
            void daemon
              .ask("DELETE", path(session))
              .then(() => sessions.drop(session.id), failed)
              .finally(() => sessions.hide(session.id, false)),
          () => {
            sessions.hide(session.id, false);
            go(session.id);
          },
        );
      },
      rename: async (session, title) => {
        await daemon.ask<SessionRow>("PATCH", path(session), { title }).then(row => sessions.put(row), failed);
      },
      save: async (session, format) => {
        try {
          const blob = await daemon.file(`${path(session)}/export?format=${format}`);
          download(blob, `${session.title || session.id}.${format}`);
        } catch (error) {
          failed(error);
        }
      },
      signOut: () => void revoke().then(signedOut),
    };
  }, [connected, say, show, aim, begin, signedOut]);
}

function download(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
