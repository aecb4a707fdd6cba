import { visible } from "@palaver/client";
import type { ReactNode } from "react";
import type { SessionRow } from "../shapes";
import { about, money } from "../text/format";

/** The agent, its model, and what the session took so far. */
export function Spent({ session }: { session: SessionRow }) {
  const { usage, cost } = session;
  return (
    <section className="spent">
      <h2>Session</h2>
      <dl>
        <Fact name="Agent">{visible(session.agent)}</Fact>
        {session.model ? <Fact name="Model">{visible(session.model)}</Fact> : null}
        <Fact name="Folder">{visible(session.workspace_path)}</Fact>
        {usage && usage.input_tokens + usage.output_tokens > 0 ? (
          <Fact name="Tokens">
            {about(usage.input_tokens)} in, {about(usage.output_tokens)} out
          </Fact>
        ) : null}
        {cost ? <Fact name="Cost">{money(cost.amount, cost.currency)}</Fact> : null}
      </dl>
    </section>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd className="tnum">{children}</dd>
    </div>
  );
}
