import type { SessionRow } from "../shapes";

export type Mark = "need" | "work" | "bad" | "ok" | "idle";

const SAID: Record<Mark, string> = {
  need: "Needs you:",
  work: "Working:",
  bad: "Failed:",
  ok: "Done, not read yet:",
  idle: "",
};

/** A session's state in one mark: different in shape as well as in colour, and said in a word. */
export function Dot({ session }: { session: SessionRow }) {
  const mark = markOf(session);
  return (
    <>
      <span className={mark === "idle" ? "dot" : `dot ${mark}`} aria-hidden="true" />
      {SAID[mark] ? <span className="sr">{SAID[mark]}</span> : null}
    </>
  );
}

export function markOf(session: SessionRow): Mark {
  if ((session.waiting?.length ?? 0) > 0 || session.status === "waiting_approval") return "need";
  if (session.activity) return "work";
  if (session.status === "failed") return "bad";
  return session.unread ? "ok" : "idle";
}
