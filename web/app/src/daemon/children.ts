import { useContext, useEffect, useState } from "react";
import type { SessionRow } from "../shapes";
import { ConnectedContext } from "./connection";

const NONE: SessionRow[] = [];

/** The sessions that a session started; looked at again while it works. */
export function useChildren(parent: string, ended: boolean): SessionRow[] {
  const connected = useContext(ConnectedContext);
  const [children, setChildren] = useState(NONE);
  // biome-ignore lint/correctness/useExhaustiveDependencies: when it ends they are asked for once more
  useEffect(() => {
    let gone = false;
    connected?.daemon.ask<{ sessions: SessionRow[] }>("GET", `/v1/sessions?parent=${parent}`).then(
      answer => gone || setChildren(answer.sessions.length > 0 ? answer.sessions : NONE),
      () => {},
    );
    return () => {
      gone = true;
    };
  }, [connected, parent, ended]);
  return children;
}
