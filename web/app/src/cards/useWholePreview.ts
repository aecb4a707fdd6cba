import { useEffect, useState } from "react";
import { useHere } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import type { ApprovalAsk } from "../shapes";

/** An ask with all its strings: those that were too long for an event are fetched before anybody may approve. */
export function useWholePreview(ask: ApprovalAsk): { ask: ApprovalAsk; loaded: boolean; error: string } {
  const here = useHere();
  const refs = ask.refs && Object.keys(ask.refs).length > 0 ? ask.refs : null;
  const [found, setFound] = useState<{ of: ApprovalAsk; ask: ApprovalAsk } | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (refs === null) return;
    let gone = false;
    const load = async () => {
      const whole = structuredClone(ask);
      for (const [pointer, { ref }] of Object.entries(refs)) {
        const blob = await here.daemon.file(`/v1/sessions/${here.sessionId}/${ref}`);
        put(whole as unknown as Record<string, unknown>, pointer, await blob.text());
      }
      if (!gone) setFound({ of: ask, ask: whole });
    };
    load().catch(reason => gone || setError(`This cannot be shown whole, so it cannot be allowed here: ${wordsOf(reason)}`));
    return () => {
      gone = true;
    };
  }, [ask, refs, here]);
  if (refs === null) return { ask, loaded: true, error: "" };
  return found?.of === ask ? { ask: found.ask, loaded: true, error: "" } : { ask, loaded: false, error };
}

function put(target: Record<string, unknown>, pointer: string, text: string): void {
  const keys = pointer
    .split("/")
    .slice(1)
    .map(key => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = keys.pop();
  let at: unknown = target;
  for (const key of keys) at = (at as Record<string, unknown> | undefined)?.[key];
  if (last !== undefined && at !== null && typeof at === "object") (at as Record<string, unknown>)[last] = text;
}
