/** An exported session: the same rows as the page's, from the events in this file, with nothing to reach and nothing to do. */

import { Fold, show, visible, type wire } from "@palaver/client";
import { createRoot } from "react-dom/client";
import { type Here, HereContext, OpenContext } from "../app/here";
import { entryKey } from "../blocks/keys";
import { Arming } from "../cards/arming";
import { Offline } from "../daemon/daemon";
import type { Entry, SessionRow } from "../shapes";
import { Day } from "../transcript/Day";
import { Row } from "../transcript/Row";
import { Toggles } from "../transcript/toggles";
import "../styles/index.css";
import "./export.css";

interface Exported {
  format: number;
  session: SessionRow;
  events: wire.Logged[];
  files: Record<string, { mime_type: string; data: string }>;
}

const exported = JSON.parse(document.getElementById("palaver-export")?.textContent ?? "") as Exported;
const fold = new Fold();
for (const event of exported.events) show(fold, event);
const entries = fold.entries as unknown as readonly Entry[];

const nobody = () => Promise.reject(new Offline());
const here: Here = {
  sessionId: exported.session.id,
  daemon: { ask: nobody, file: nobody },
  readOnly: true,
  arming: new Arming(),
  toggles: new Toggles(),
  agent: exported.session.agent,
  askedAt: () => undefined,
  onUsage: () => () => {},
  show: () => {},
  go: () => {},
  markdownOf: () => "",
  resend: () => {},
  addressOf: path => {
    const file = exported.files[path];
    return file ? `data:${file.mime_type};base64,${file.data}` : undefined;
  },
};

createRoot(document.getElementById("root") as HTMLElement).render(
  <HereContext value={here}>
    <OpenContext value={{ approvals: [], questions: [] }}>
      <main className="exported">
        <header>
          <h1>{visible(exported.session.title || "Palaver")}</h1>
          <p>
            {visible(exported.session.agent)} in {visible(exported.session.workspace_path)}
          </p>
        </header>
        <div className="log" role="log" aria-label="Transcript">
          <div className="col">
            {entries.map((entry, place) => {
              const before = entries[place - 1];
              const first = before === undefined || before.message?.role === "user" || before.turn_id !== entry.turn_id;
              return (
                <div key={entryKey(entry)}>
                  <Day at={entry.message?.created_at} before={before?.message?.created_at} />
                  <Row entry={entry} first={first} open={false} />
                </div>
              );
            })}
          </div>
        </div>
      </main>
    </OpenContext>
  </HereContext>,
);
