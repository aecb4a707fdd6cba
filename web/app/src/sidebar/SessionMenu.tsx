import { visible } from "@palaver/client";
import type { ReactNode } from "react";
import { usePage } from "../app/page";
import type { SessionRow } from "../shapes";
import { Menu, MenuItem } from "../ui/Menu";

/** What can be done with a session from the list. Archiving and deleting can be taken back for a while. */
export function SessionMenu({ session, children }: { session: SessionRow; children: ReactNode }) {
  const page = usePage();
  return (
    <Menu label={`More about ${visible(session.title || "New session")}`} className="icon-btn mini more-btn" icon={children}>
      <MenuItem icon="edit" act={() => page.show({ kind: "rename", session })}>
        Rename…
      </MenuItem>
      <MenuItem icon="branch" act={() => page.fork(session.id)}>
        Fork
      </MenuItem>
      <MenuItem icon="archive" act={() => page.archive(session, !session.archived)}>
        {session.archived ? "Bring back" : "Archive"}
      </MenuItem>
      <MenuItem icon="trash" act={() => page.remove(session)}>
        Delete
      </MenuItem>
    </Menu>
  );
}
