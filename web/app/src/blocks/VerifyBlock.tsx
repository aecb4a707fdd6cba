import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import type { Block } from "../shapes";
import { duration, plural } from "../text/format";
import { Fold } from "../ui/Fold";
import { Icon } from "../ui/Icon";
import { ApprovalRecord } from "./ApprovalRecord";
import { Output } from "./Output";
import { outputOf } from "./toolWords";

interface Verified {
  ok: boolean;
  clean?: boolean;
  dirty?: string[];
  commands: { command: string; exit_code: number | null; duration_ms: number; artifact?: string }[];
  stale?: boolean;
}

/** The workspace's own checks, run after a change. */
export function VerifyBlock({ block }: { block: Block }) {
  const here = useHere();
  const { ok, clean, dirty = [], commands, stale } = block.data as unknown as Verified;
  const state = ok ? "success" : "error";
  return (
    <Fold
      id={block.id ?? ""}
      className={`tool verify ${state}`}
      data-state={state}
      open={!ok}
      summary={
        <>
          <span className="st">
            <Icon name={ok ? "check" : "bang"} />
          </span>
          <span className="sr">{ok ? "Succeeded:" : "Failed:"}</span>
          <span className="verb">Verify</span>
          <span className="arg">{visible(commands.map(one => one.command).join(" && "))}</span>
          <span className="meta tnum">
            <span className="tag">{ok ? "passed" : "failed"}</span>
            {stale ? " · changed since" : null}
          </span>
        </>
      }
    >
      <div className="body">
        {block.call?.approval && block.call.approval.status !== "waiting" ? <ApprovalRecord approval={block.call.approval} /> : null}
        {commands.map((one, place) => (
          <p key={place} className="note tnum">
            <code>{visible(one.command)}</code> {one.exit_code == null ? "did not end" : `exit ${one.exit_code}`} ·{" "}
            {duration(one.duration_ms)}
            {one.artifact && !here.readOnly ? (
              <button
                type="button"
                className="btn quiet mini"
                onClick={() => here.show({ kind: "artifact", title: one.command, path: one.artifact as string })}
              >
                Open full output
              </button>
            ) : null}
          </p>
        ))}
        {clean === false && dirty.length > 0 ? <p className="note">{plural(dirty.length, "tracked file")} changed while it ran</p> : null}
        {block.call ? <Output call={block.call} text={outputOf(block, "")} /> : null}
      </div>
    </Fold>
  );
}
