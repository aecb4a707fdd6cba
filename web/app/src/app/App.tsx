import { useCallback, useEffect, useState, useSyncExternalStore } from "react";
import { Connected, ConnectedContext } from "../daemon/connection";
import { grouped } from "../sidebar/grouped";
import { Sidebar } from "../sidebar/Sidebar";
import { AnnounceContext } from "./announce";
import { Dialogs } from "./Dialogs";
import { globalKeys } from "./globalKeys";
import { notifications } from "./notifications";
import { PageContext, type PageDialog } from "./page";
import { Regions, useRegions } from "./Regions";
import { useRoute } from "./route";
import { SessionScreen } from "./SessionScreen";
import { Start } from "./Start";
import { token } from "./signIn";
import { useDeed } from "./useDeed";
import { usePageActions } from "./usePageActions";

/** The page of somebody who is signed in. */
export function App({ signedOut }: { signedOut: () => void }) {
  const [connected] = useState(() => new Connected(token(), signedOut));
  const route = useRoute();
  const { said, say } = useRegions();
  const [dialog, show] = useState<PageDialog | null>(null);
  const [target, setTarget] = useState<{ id: string } | null>(null);
  const aim = useCallback((id: string | null) => setTarget(id === null ? null : { id }), []);
  const { deed, begin } = useDeed();
  const page = usePageActions({ connected, say, show, aim, begin, signedOut });
  const { session } = route;

  useEffect(() => connected.begin(), [connected]);
  useEffect(
    () =>
      globalKeys({
        palette: () => show(now => (now?.kind === "palette" ? null : { kind: "palette" })),
        search: () => show({ kind: "search" }),
        fresh: () => show({ kind: "new" }),
        stop: () => {
          if (session) page.daemon.ask("POST", `/v1/sessions/${session}/cancel`, {}).catch(page.failed);
        },
      }),
    [page, session],
  );
  useEffect(() => {
    connected.onNotify = notice => {
      say(`${notice.title}: ${notice.text}`);
      notifications.show(notice, () => page.go(notice.session_id));
    };
    connected.client.notify(true);
  }, [connected, page, say]);
  useTitle(connected, session);

  return (
    <ConnectedContext value={connected}>
      <PageContext value={page}>
        <AnnounceContext value={say}>
          <a className="skip" href="#composer">
            Skip to message box
          </a>
          <div className={session ? "app" : "app no-rail"} id="app">
            <Sidebar current={session} />
            {session ? <SessionScreen key={`${session}@${route.at}`} id={session} at={route.at} target={target} /> : <Start />}
          </div>
          <Regions said={said} deed={deed} />
          <Dialogs open={dialog} close={() => show(null)} session={session} />
        </AnnounceContext>
      </PageContext>
    </ConnectedContext>
  );
}

/** How many need somebody stands in the tab's title, before the session's own. */
function useTitle(connected: Connected, session: string | null): void {
  const { sessions } = useSyncExternalStore(connected.sessions.subscribe, connected.sessions.get);
  const needs = grouped(sessions).needs.length;
  const name = sessions.find(one => one.id === session)?.title;
  useEffect(() => {
    document.title = `${needs > 0 ? `(${needs}) ` : ""}${name ? `${name} — ` : ""}Palaver`;
  }, [needs, name]);
}
