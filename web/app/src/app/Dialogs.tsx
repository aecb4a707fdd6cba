import { lazy, Suspense } from "react";
import { Palette } from "../palette/Palette";
import type { PageDialog } from "./page";

const lazily = {
  NewSession: lazy(() => import("../dialogs/NewSession").then(it => ({ default: it.NewSession }))),
  Search: lazy(() => import("../dialogs/Search").then(it => ({ default: it.Search }))),
  Settings: lazy(() => import("../dialogs/Settings").then(it => ({ default: it.SettingsDialog }))),
  Help: lazy(() => import("../dialogs/Help").then(it => ({ default: it.Help }))),
  Rename: lazy(() => import("../dialogs/Rename").then(it => ({ default: it.Rename }))),
  FullOutput: lazy(() => import("../dialogs/FullOutput").then(it => ({ default: it.FullOutput }))),
  Undo: lazy(() => import("../dialogs/Undo").then(it => ({ default: it.Undo }))),
  Changes: lazy(() => import("../dialogs/Changes").then(it => ({ default: it.Changes }))),
};

/** Whatever lies over the page. It is loaded when it is first wanted. */
export function Dialogs({ open, close, session }: { open: PageDialog | null; close: () => void; session: string | null }) {
  if (open === null) return null;
  return <Suspense>{one(open, close, session)}</Suspense>;
}

function one(open: PageDialog, close: () => void, session: string | null) {
  switch (open.kind) {
    case "palette":
      return <Palette current={session} close={close} query={open.query} />;
    case "new":
      return <lazily.NewSession close={close} workspace={open.workspace} agent={open.agent} />;
    case "search":
      return <lazily.Search close={close} session={open.session ?? session ?? undefined} />;
    case "settings":
      return <lazily.Settings close={close} />;
    case "help":
      return <lazily.Help close={close} />;
    case "rename":
      return <lazily.Rename session={open.session} close={close} />;
    case "of-session":
      return session === null ? null : ofSession(open.what, close, session);
  }
}

function ofSession(what: Extract<PageDialog, { kind: "of-session" }>["what"], close: () => void, session: string) {
  switch (what.kind) {
    case "output":
      return (
        <lazily.FullOutput
          sessionId={session}
          title={what.title}
          callId={what.callId}
          streams={what.streams}
          text={what.text}
          close={close}
        />
      );
    case "artifact":
      return <lazily.FullOutput sessionId={session} title={what.title} path={what.path} close={close} />;
    case "undo":
      return <lazily.Undo sessionId={session} turnId={what.turnId} redo={what.redo} close={close} />;
    case "changes":
      return <lazily.Changes sessionId={session} close={close} />;
  }
}
