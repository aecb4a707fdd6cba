import { visible } from "@palaver/client";
import type { Block, Cost, Problem, Usage } from "../shapes";
import { about, duration, money, plural } from "../text/format";
import { Icon } from "../ui/Icon";
import { Interrupted } from "./Interrupted";
import { TurnActions } from "./TurnActions";

interface Ended {
  outcome: "completed" | "failed" | "cancelled" | "interrupted";
  stop_reason?: string;
  cause?: string;
  error?: Problem;
  usage?: Usage;
  cost?: Cost;
  duration_ms: number;
  counts?: { steps?: number; tool_calls?: number };
  verified?: boolean | null;
}

const CAUSES: Record<string, string> = {
  user_cancel: " by you",
  superseded: " by your next message",
  parent: " with the session that started it",
  shutdown: ": Palaver was stopped",
  crash: ": Palaver ended unexpectedly",
};

/** The one end of a turn: how it went, what it took, and what can be done about it. */
export function TurnEndBlock({ block }: { block: Block }) {
  const ended = block.data as unknown as Ended;
  const stopped = ended.outcome === "cancelled" || ended.outcome === "interrupted";
  return (
    <div className="end" data-outcome={ended.outcome}>
      {ended.outcome === "failed" ? (
        <div className="turn-failed" role="group" aria-label="The turn failed">
          <Icon name="bang" />
          <div>
            <b>{headline(ended.error?.code)}</b>
            <p>{visible(ended.error?.message ?? "No reason was given.", { prose: true })}</p>
          </div>
        </div>
      ) : null}
      {stopped ? (
        <Interrupted>
          <span>{CAUSES[ended.cause ?? ""] ?? ""}</span>
        </Interrupted>
      ) : null}
      <div className="sum tnum">
        <span>{spent(ended)}</span>
        <TurnActions turnId={block.id ?? ""} failed={ended.outcome !== "completed"} />
      </div>
    </div>
  );
}

const LIMITS: Record<string, string> = {
  step_limit: "Stopped after its most steps",
  time_limit: "Stopped: its time was up",
  cost_limit: "Stopped: it cost as much as it may",
  no_progress: "Stopped: it did the same again and again",
  provider_silent: "The model went silent",
};

function headline(code: string | undefined): string {
  return LIMITS[code ?? ""] ?? "The turn failed";
}

function spent({ duration_ms, usage, cost, counts }: Ended): string {
  const words = [`Worked ${duration(duration_ms)}`];
  if (counts?.tool_calls) words.push(plural(counts.tool_calls, "tool call"));
  if (usage && usage.input_tokens + usage.output_tokens > 0) words.push(`${about(usage.input_tokens + usage.output_tokens)} tokens`);
  if (cost) words.push(money(cost.amount, cost.currency));
  return words.join(" · ");
}
