import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import type { entryKey } from "../blocks/keys";
import { Arming } from "../cards/arming";
import { Composer } from "../composer/Composer";
import { useConnected, useConnection } from "../daemon/connection";
import { Rail } from "../rail/Rail";
import type { SessionRow } from "../shapes";
import { markdownOf } from "../transcript/markdownOf";
import { Scroller } from "../transcript/scroller";
import { Transcript } from "../transcript/Transcript";
import { Toggles } from "../transcript/toggles";
import { answerByKey } from "./answerByKey";
import { type Here, HereContext, OpenContext } from "./here";
import { Jump } from "./Jump";
import { NeedBar } from "./NeedBar";
import { OfflineBar } from "./OfflineBar";
import { usePage } from "./page";
import { TopBar } from "./TopBar";
import { useReadMark } from "./useReadMark";

/** One conversation: what was said, what waits, and where to write. `at` shows it as it was. */
export function SessionScreen({ id, at, target }: { id: string; at: number | null; target: { id: string } | null }) {
  const connected = useConnected();
  const { open: online } = useConnection();
  const page = usePage();
  const live = useMemo(() => connected.session(id, at), [connected, id, at]);
  const view = useSyncExternalStore(live.subscribe, live.get);
  const draft = useMemo(() => connected.draft(id), [connected, id]);
  const scroller = useMemo(() => new Scroller(), []);
  const toggles = useMemo(() => new Toggles(), []);
  const arming = useMemo(() => new Arming(), []);
  const entries = useRef(view.entries);
  entries.current = view.entries;
  const session = view.session;
  const agent = session?.agent ?? "the agent";
  const [reached, setReached] = useState<{ id: string } | null>(null);

  useEffect(() => live.start(), [live]);
  useEffect(() => arming.attend(), [arming]);
  useEffect(() => answerByKey(arming), [arming]);
  useEffect(() => {
    if (online && at === null) {
      connected.daemon.ask<{ text: string; rev: number }>("GET", `/v1/sessions/${id}/draft`).then(
        theirs => draft.take(theirs),
        () => {},
      );
    }
  }, [connected, draft, id, online, at]);
  useEffect(() => {
    if (target && view.loaded) void live.reach(target.id).then(() => setReached({ id: target.id }));
  }, [live, target, view.loaded]);

  const here = useMemo<Here>(
    () => ({
      sessionId: id,
      daemon: connected.daemon,
      readOnly: at !== null,
      arming,
      toggles,
      agent,
      askedAt: live.askedAt,
      onUsage: live.onUsage,
      show: what => page.show({ kind: "of-session", what }),
      go: page.go,
      markdownOf: turnId => markdownOf(entries.current.filter(entry => entry.turn_id === turnId)),
      resend: (messageId, text) => {
        const before = entries.current.findIndex(entry => entry.message?.id === messageId);
        const cut = entries.current.slice(0, before).findLast(entry => entry.message !== null);
        void page.fork(id, cut?.message?.id, text, cut === undefined);
      },
    }),
    [id, connected, at, arming, toggles, agent, live, page],
  );
  const newFrom = useReadMark({ connected, live, view, scroller, id, off: at !== null });
  const lastSaid = useMemo(() => lastWords(view.entries), [view.entries]);
  const lastTurn = useMemo(() => lastChange(view.entries), [view.entries]);
  const context = useMemo(() => (session ? { session, lastTurn, show: here.show } : null), [session, lastTurn, here]);
  const sent = useCallback(() => {
    void live.latest();
    scroller.sent();
  }, [live, scroller]);

  if (view.gone) return <Missing />;
  return (
    <HereContext value={here}>
      <OpenContext value={view.open}>
        <main>
          <TopBar session={session} open={view.open} at={at} />
          <OfflineBar />
          {view.error ? <p className="line bad">{view.error}</p> : null}
          {view.loaded ? (
            <Transcript
              view={view}
              scroller={scroller}
              agent={agent}
              readSeq={newFrom}
              loadEarlier={live.loadEarlier}
              loadLater={live.loadLater}
              target={reached}
            />
          ) : (
            <div className="log" />
          )}
          {session && context && at === null ? (
            <div className="dock">
              <div>
                <Jump
                  scroller={scroller}
                  past={view.later}
                  latest={() => live.latest()}
                  waiting={view.open.approvals.length + view.open.questions.length}
                />
                <NeedBar open={view.open} agent={agent} arming={arming} />
                {session.status === "completed" ? (
                  <Closed session={session} />
                ) : (
                  <Composer
                    key={id}
                    session={session}
                    draft={draft}
                    turn={view.open.turn}
                    lastSaid={lastSaid}
                    sent={sent}
                    context={context}
                  />
                )}
              </div>
            </div>
          ) : null}
        </main>
        <Rail session={session} entries={view.entries} open={view.open} />
      </OpenContext>
    </HereContext>
  );
}

function Closed({ session }: { session: SessionRow }) {
  const page = usePage();
  return (
    <div className="paused">
      <span>This session is closed.</span>
      <button type="button" className="btn mini" onClick={() => void page.fork(session.id)}>
        Go on in a copy
      </button>
    </div>
  );
}

function Missing() {
  const page = usePage();
  return (
    <main className="nothing">
      <h1>This session is not here any more</h1>
      <p>It was deleted, or the address is of another machine.</p>
      <button type="button" className="btn" onClick={() => page.go(null)}>
        All sessions
      </button>
    </main>
  );
}

function lastWords(
  entries: readonly { message: { role: string; author: { kind: string } } | null; blocks: { part?: { text?: string } }[] }[],
): string {
  const last = entries.findLast(entry => entry.message?.role === "user" && entry.message.author.kind === "user");
  return last?.blocks.map(block => block.part?.text ?? "").join("\n") ?? "";
}

/** The turn whose changes could be taken back. */
function lastChange(entries: Parameters<typeof entryKey>[0][] | readonly Parameters<typeof entryKey>[0][]): string | null {
  for (let place = entries.length - 1; place >= 0; place--) {
    const report = entries[place]?.blocks.find(block => block.kind === "change_report");
    if (report) return (report.id ?? "").replace(/^changes:/, "");
  }
  return null;
}
