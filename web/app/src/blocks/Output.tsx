import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import type { Call } from "../shapes";
import { argument, verb } from "./toolWords";

const LINES = 20;

/** What a call printed, its last twenty lines (of a file the first): the rest is a click away. */
export function Output({ call, text }: { call: Call; text: string }) {
  const here = useHere();
  if (text === "" && !call.truncated) return null;
  const lines = text.replace(/\n$/, "").split("\n");
  const fromStart = call.output.length === 0;
  const shown = lines.length <= LINES ? lines : fromStart ? lines.slice(0, LINES) : lines.slice(-LINES);
  const chars = Object.values(call.output_chars).reduce((sum, n) => sum + n, 0);
  const more = shown.length < lines.length || call.truncated || chars > text.length;
  const open = () =>
    here.show({ kind: "output", title: `${verb(call)} ${argument(call)}`, callId: call.id, streams: Object.keys(call.output_chars), text });
  return (
    <>
      {more ? (
        <div className="note tnum">
          {call.truncated ? "The agent saw a part of this. The whole is kept." : `${shown.length} of ${lines.length} lines.`}
          {here.readOnly ? null : (
            <button type="button" className="btn quiet mini" onClick={open}>
              Open full output
            </button>
          )}
        </div>
      ) : null}
      {text === "" ? null : <pre tabIndex={0}>{visible(shown.join("\n"), { prose: true })}</pre>}
    </>
  );
}
