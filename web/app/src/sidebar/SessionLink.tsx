import { visible } from "@palaver/client";
import { memo } from "react";
import { usePage } from "../app/page";
import type { SessionRow } from "../shapes";
import { age } from "../text/format";
import { Icon } from "../ui/Icon";
import { Since } from "../ui/Time";
import { Dot } from "./Dot";
import { SessionMenu } from "./SessionMenu";
import { why } from "./why";

/** A session in the list: its mark, its title, how old its news are, and why it stands there. */
export const SessionLink = memo(function SessionLink({ session, current }: { session: SessionRow; current: boolean }) {
  const page = usePage();
  const reason = why(session);
  return (
    <div className="item">
      <a
        href={`/s/${session.id}`}
        aria-current={current ? "page" : undefined}
        data-session={session.id}
        onClick={event => {
          if (event.metaKey || event.ctrlKey || event.shiftKey) return;
          event.preventDefault();
          page.go(session.id);
        }}
      >
        <Dot session={session} />
        <span className="t">{visible(session.title || "New session")}</span>
        <span className="w">
          <Since from={session.updated_at} each="minute" say={ms => age(new Date(Date.now() - ms).toISOString(), Date.now())} />
        </span>
        {reason ? <span className="s">{visible(reason)}</span> : null}
      </a>
      <SessionMenu session={session}>
        <Icon name="more" />
      </SessionMenu>
    </div>
  );
});
