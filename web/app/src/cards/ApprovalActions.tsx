import { visible } from "@palaver/client";
import { useRef, useState } from "react";
import { keyHint } from "../app/keys";
import type { ApprovalAsk, AskOption, Json } from "../shapes";
import { AllowAll } from "./AllowAll";
import { optionWords } from "./askWords";

export interface GivenAnswer {
  action: "approve" | "deny";
  scope?: string;
  option_id?: string;
  reason?: string;
  input?: Json;
}

const KEYS = { once: "Y", session: "", workspace: "" } as const;

/** The answers, the narrowest first. Denying takes a note, and goes without one. */
export function ApprovalActions({
  ask,
  ready,
  guarded,
  send,
  edit,
}: {
  ask: ApprovalAsk;
  ready: boolean;
  guarded: (act: () => void) => void;
  send: (answer: GivenAnswer) => void;
  edit: () => void;
}) {
  const [denying, setDenying] = useState(false);
  const note = useRef<HTMLTextAreaElement>(null);
  const approvals = ask.options.filter(option => option.action === "approve");
  const offered: AskOption[] = approvals.length > 0 ? approvals : [{ id: "", action: "approve", scope: "once", label: "Allow once" }];
  const wider = offered.findIndex(option => option.scope !== "once");
  const deny = () => {
    const reason = note.current?.value.trim();
    send({ action: "deny", ...(reason ? { reason } : {}) });
  };
  if (denying) {
    return (
      <div className="acts note-form">
        <textarea
          ref={note}
          aria-label="Why not? The agent reads this"
          placeholder="Why not? The agent reads this"
          rows={2}
          // biome-ignore lint/a11y/noAutofocus: its person has just asked for it
          autoFocus
          onKeyDown={event => {
            if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
              event.preventDefault();
              guarded(deny);
            }
            if (event.key === "Escape") setDenying(false);
          }}
        />
        <button type="button" className="btn primary" onClick={() => guarded(deny)}>
          {ask.subject === "plan" ? "Keep planning" : "Deny"}
        </button>
        <button type="button" className="btn quiet" onClick={() => setDenying(false)}>
          Back
        </button>
      </div>
    );
  }
  return (
    <div className="acts arms">
      {ready
        ? offered.map((option, place) => (
            <Option
              key={option.id || option.label}
              option={option}
              subject={ask.subject}
              primary={place === 0}
              shortcut={place === 0 ? KEYS.once || "Y" : place === wider ? "A" : ""}
              choose={() => guarded(() => send({ action: "approve", ...(option.id ? { option_id: option.id } : { scope: "once" }) }))}
            />
          ))
        : null}
      {ready && canEdit(ask) ? (
        <button type="button" className="btn quiet" onClick={edit}>
          Edit…
        </button>
      ) : null}
      <button type="button" className="btn quiet" data-answer="deny" aria-keyshortcuts="Alt+N" onClick={() => setDenying(true)}>
        {ask.subject === "plan" ? "Keep planning…" : "Deny with a note…"} <kbd>{keyHint("N")}</kbd>
      </button>
      <AllowAll ask={ask} />
    </div>
  );
}

function Option({
  option,
  subject,
  primary,
  shortcut,
  choose,
}: {
  option: AskOption;
  subject: ApprovalAsk["subject"];
  primary: boolean;
  shortcut: string;
  choose: () => void;
}) {
  const { before, rule, after } = optionWords(option, subject);
  return (
    <button
      type="button"
      className={primary ? "btn primary" : "btn rule"}
      data-answer={primary ? "allow" : shortcut === "A" ? "always" : undefined}
      aria-keyshortcuts={shortcut ? `Alt+${shortcut}` : undefined}
      onClick={choose}
    >
      <span>
        {visible(before)}
        {rule ? (
          <>
            {" "}
            <code>{visible(rule)}</code> {after}
          </>
        ) : null}
      </span>
      {shortcut ? <kbd>{keyHint(shortcut)}</kbd> : null}
    </button>
  );
}

function canEdit(ask: ApprovalAsk): boolean {
  return (
    ask.subject === "plan" || ask.subject === "review" || ask.subject === "budget" || (ask.subject === "tool" && ask.tool_call !== null)
  );
}
