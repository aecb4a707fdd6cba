import { visible } from "@palaver/client";
import { useMemo } from "react";
import { PALETTE_HINT } from "../app/keys";
import { usePage } from "../app/page";
import { useConnection } from "../daemon/connection";
import { useSessions } from "../daemon/sessions";
import { Icon } from "../ui/Icon";
import { grouped } from "./grouped";
import { SessionLink } from "./SessionLink";

/** Every conversation: those that need somebody first, then by project. */
export function Sidebar({ current }: { current: string | null }) {
  const page = usePage();
  const { sessions, more } = useSessions();
  const { needs, projects } = useMemo(() => grouped(sessions), [sessions]);
  const link = (session: (typeof sessions)[number]) => <SessionLink key={session.id} session={session} current={session.id === current} />;
  return (
    <nav className="side" aria-label="Sessions">
      <div className="brand">
        <b aria-hidden="true">P</b>Palaver
        <button
          type="button"
          className="icon-btn"
          aria-label="New session"
          aria-keyshortcuts="Alt+C"
          onClick={() => page.show({ kind: "new" })}
        >
          <Icon name="plus" />
        </button>
      </div>
      <button type="button" className="find" onClick={() => page.show({ kind: "palette" })}>
        <Icon name="search" />
        Search or run<kbd>{PALETTE_HINT}</kbd>
      </button>
      <div className="sessions">
        {needs.length > 0 ? (
          <section aria-label="Needs you">
            <h2>
              Needs you <span className="n">{needs.length}</span>
            </h2>
            {needs.map(link)}
          </section>
        ) : null}
        {projects.map(project => (
          <section key={project.key} aria-label={visible(project.name)}>
            <h2 title={visible(project.key)}>
              {visible(project.name)} <span className="n">{project.sessions.length}</span>
            </h2>
            {project.sessions.map(link)}
          </section>
        ))}
        {more ? (
          <button type="button" className="btn quiet" onClick={more}>
            Earlier sessions
          </button>
        ) : null}
      </div>
      <Foot />
    </nav>
  );
}

function Foot() {
  const page = usePage();
  const connection = useConnection();
  return (
    <div className="foot">
      <span className={connection.open ? "dot ok" : "dot bad"} aria-hidden="true" />
      <span className="t">{connection.open ? `Connected to ${location.host}` : "Not connected"}</span>
      <button type="button" className="icon-btn" aria-label="Switch theme" onClick={page.switchTheme}>
        <Icon name="moon" />
      </button>
      <button type="button" className="icon-btn" aria-label="Settings" onClick={() => page.show({ kind: "settings" })}>
        <Icon name="gear" />
      </button>
    </div>
  );
}
