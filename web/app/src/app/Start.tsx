import { useSessions } from "../daemon/sessions";
import { NavButton } from "./NavButton";
import { OfflineBar } from "./OfflineBar";
import { usePage } from "./page";

/** No session is open: how to begin one. */
export function Start() {
  const page = usePage();
  const { sessions, loaded } = useSessions();
  return (
    <main>
      <header className="top only-narrow">
        <NavButton />
        <h1 className="sr">Palaver</h1>
      </header>
      <OfflineBar />
      <div className="nothing">
        <h2>{loaded && sessions.length === 0 ? "Begin a first session" : "What shall we do?"}</h2>
        <p>An agent works in a folder of this machine, and asks before it does what cannot be taken back.</p>
        <button type="button" className="btn primary" onClick={() => page.show({ kind: "new" })}>
          New session
        </button>
      </div>
    </main>
  );
}
