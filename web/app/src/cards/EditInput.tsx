import { useRef, useState } from "react";
import type { ApprovalAsk, Json, PlanItem } from "../shapes";

/** Changed arguments, a plan or a patch as a person would rather have it. What is sent is decided upon again by the daemon. */
export function EditInput({ ask, done, send }: { ask: ApprovalAsk; done: () => void; send: (input: Json) => void }) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [wrong, setWrong] = useState("");
  const apply = () => {
    try {
      send(parse(ask, field.current?.value ?? ""));
    } catch (error) {
      setWrong(error instanceof Error ? error.message : String(error));
    }
  };
  const text = textOf(ask);
  return (
    <div className="acts note-form">
      <textarea
        ref={field}
        className="mono"
        aria-label="What it does instead"
        rows={Math.min(20, text.split("\n").length + 1)}
        defaultValue={text}
        spellCheck={false}
        // biome-ignore lint/a11y/noAutofocus: its person has just asked for it
        autoFocus
      />
      {wrong ? <p role="alert">{wrong}</p> : null}
      <button type="button" className="btn primary" onClick={apply}>
        Allow with these changes
      </button>
      <button type="button" className="btn quiet" onClick={done}>
        Back
      </button>
    </div>
  );
}

function textOf(ask: ApprovalAsk): string {
  const input = ask.tool_call?.input ?? {};
  if (ask.subject === "plan") return ((input.items as PlanItem[]) ?? []).map(item => item.text).join("\n");
  if (ask.subject === "budget") return JSON.stringify({ steps: 50 }, null, 2);
  if (typeof input.patch === "string") return input.patch;
  if (typeof input.command === "string" && Object.keys(input).length === 1) return input.command;
  return JSON.stringify(input, null, 2);
}

function parse(ask: ApprovalAsk, text: string): Json {
  const input = ask.tool_call?.input ?? {};
  if (ask.subject === "plan") {
    const items = text.split("\n").filter(line => line.trim() !== "");
    return { items: items.map(line => ({ text: line.trim(), status: "pending" })), ...(input.text ? { text: input.text } : {}) };
  }
  if (ask.subject !== "budget" && typeof input.patch === "string") return { ...input, patch: text };
  if (ask.subject !== "budget" && typeof input.command === "string" && Object.keys(input).length === 1) return { command: text };
  return JSON.parse(text) as Json;
}
