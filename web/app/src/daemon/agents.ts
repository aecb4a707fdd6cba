import { useEffect, useState } from "react";
import type { Choice } from "../shapes";
import { useConnected, useConnection } from "./connection";

export interface AgentRow {
  name: string;
  title: string;
  backend: string;
  ready: boolean;
  reason?: string;
  models?: Choice[];
  modes?: Choice[];
}

let known: AgentRow[] = [];

/** Who could answer: asked for when somebody wants to know. */
export function useAgents(): AgentRow[] {
  const { daemon } = useConnected();
  const { open } = useConnection();
  const [agents, setAgents] = useState(known);
  useEffect(() => {
    if (!open || known.length > 0) return;
    daemon.ask<{ agents: AgentRow[] }>("GET", "/v1/agents").then(
      answer => {
        known = answer.agents;
        setAgents(known);
      },
      () => {},
    );
  }, [daemon, open]);
  return agents;
}
