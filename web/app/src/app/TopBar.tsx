import { visible } from "@palaver/client";
import { useConnection } from "../daemon/connection";
import type { SessionRow } from "../shapes";
import { folderName } from "../text/format";
import { Icon } from "../ui/Icon";
import { Menu, MenuItem } from "../ui/Menu";
import type { OpenNow } from "./here";
import { useHere } from "./here";
import { NavButton } from "./NavButton";
import { usePage } from "./page";

/** Where we are, and what of it wants attention. */
export function TopBar({ session, open, at }: { session: SessionRow | null; open: OpenNow; at: number | null }) {
  const here = useHere();
  const page = usePage();
  const waiting = open.approvals.length + open.questions.length;
  return (
    <header className="top">
      <NavButton />
      {session ? <span className="crumb">{visible(folderName(session.workspace_path))} /</span> : null}
      <h1>{session ? visible(session.title || "New session") : ""}</h1>
      {session?.git ? (
        <span className="chip only-l">
          <Icon name="branch" />
          {visible(session.git.branch)}
          {session.git.dirty ? <span className="sr"> with changes</span> : null}
        </span>
      ) : null}
      {at !== null ? (
        <span className="chip">
          As it was at event {at} ·{" "}
          <button type="button" onClick={() => page.go(here.sessionId)}>
            Back to now
          </button>
        </span>
      ) : null}
      <span className="sp" />
      {waiting > 0 ? (
        <span className="chip need">
          <Icon name="shield" />
          {waiting} waiting
        </span>
      ) : null}
      <UpdateChip />
      {session ? (
        <Menu className="icon-btn" label="More about this session" icon={<Icon name="more" />}>
          <MenuItem icon="search" act={() => page.show({ kind: "search", session: session.id })}>
            Search here
          </MenuItem>
          <MenuItem icon="diff" act={() => here.show({ kind: "changes" })}>
            All changes
          </MenuItem>
          <MenuItem icon="edit" act={() => page.show({ kind: "rename", session })}>
            Rename…
          </MenuItem>
          <MenuItem icon="branch" act={() => void page.fork(session.id)}>
            Fork
          </MenuItem>
          <MenuItem icon="file" act={() => void page.save(session, "html")}>
            Export as HTML
          </MenuItem>
          <MenuItem icon="file" act={() => void page.save(session, "json")}>
            Export as JSON
          </MenuItem>
          <MenuItem icon="archive" act={() => page.archive(session, !session.archived)}>
            {session.archived ? "Bring back" : "Archive"}
          </MenuItem>
          <MenuItem icon="trash" act={() => page.remove(session)}>
            Delete
          </MenuItem>
        </Menu>
      ) : null}
    </header>
  );
}

/** This page came from an older daemon than the one that answers. What is being written is kept. */
function UpdateChip() {
  const { version } = useConnection();
  const own = document.documentElement.dataset.version;
  if (!own || !version || own === version) return null;
  return (
    <button type="button" className="chip" onClick={() => location.reload()}>
      Palaver was updated: reload
    </button>
  );
}
