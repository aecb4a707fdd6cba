import { visible } from "@palaver/client";
import { Component, memo, type ReactNode } from "react";
import { useHere, useOpen } from "../app/here";
import { BlockView } from "../blocks/BlockView";
import { blockKey, entryKey, groups, TOOLS } from "../blocks/keys";
import { SubagentBlock } from "../blocks/SubagentBlock";
import { NO_TAIL, type Tail } from "../blocks/tail";
import type { Block, Entry } from "../shapes";
import { duration } from "../text/format";
import { CopyButton } from "../ui/CopyButton";
import { Icon } from "../ui/Icon";
import { At, Since } from "../ui/Time";
import { UserSaid } from "./UserSaid";

export type Tails = Readonly<Record<string, Tail>>;

const NO_TAILS: Tails = {};

/** One entry of the transcript. It is drawn again only if it changed, or text of it is in flight. */
export const Row = memo(function Row({
  entry,
  tails = NO_TAILS,
  first,
  open,
}: {
  entry: Entry;
  tails?: Tails | undefined;
  first: boolean;
  open: boolean;
}) {
  return (
    <RowBoundary entry={entry}>
      <RowBody entry={entry} tails={tails} first={first} open={open} />
    </RowBoundary>
  );
});

function RowBody({ entry, tails, first, open }: { entry: Entry; tails: Tails; first: boolean; open: boolean }) {
  const id = entryKey(entry);
  if (entry.message?.role === "user") return <UserSaid entry={entry} id={id} />;
  const own = (entry.message && tails[entry.message.id]) || NO_TAIL;
  const blocks = [...entry.blocks, ...unborn(entry, own)];
  return (
    <article
      className={first ? "turn" : "turn on"}
      data-id={id}
      data-turn={entry.turn_id}
      aria-label={entry.message ? undefined : "What happened"}
    >
      {first && entry.message ? <By entry={entry} /> : null}
      {groups(blocks).map(group => {
        const views = group.map((block, place) => (
          <BlockView
            key={blockKey(block, place)}
            block={block}
            tail={block.call ? (tails[block.call.id] ?? NO_TAIL) : own}
            live={open && isGrowing(block, blocks)}
            own={false}
          />
        ));
        const lead = group[0] as Block;
        if (lead.kind === "subagent") return <SubagentBlock key={blockKey(lead, 0)} blocks={group} />;
        return TOOLS.has(lead.kind) ? (
          <div key={blockKey(lead, 0)} className="tools">
            {views}
          </div>
        ) : (
          views
        );
      })}
    </article>
  );
}

/** Text in flight whose block the log does not know yet: it comes at the end. */
function unborn(entry: Entry, tail: Tail): Block[] {
  return Object.entries(tail)
    .filter(([part]) => !entry.blocks.some(block => block.part?.id === part))
    .map(([part, { kind }]) => ({ kind, part: { type: kind as "text", id: part, text: "" } }));
}

function isGrowing(block: Block, blocks: Block[]): boolean {
  return block.part !== undefined && !block.ended_at && block === blocks[blocks.length - 1];
}

function By({ entry }: { entry: Entry }) {
  const here = useHere();
  const { turn } = useOpen();
  const name = visible(entry.message?.author.name ?? here.agent);
  return (
    <div className="by">
      <span className="mark" aria-hidden="true">
        {name.charAt(0)}
      </span>
      <h2>{name}</h2>
      {entry.message ? (
        <span className="tnum">
          <At at={entry.message.created_at} />
          {turn && turn.id === entry.turn_id ? (
            <span data-now="">
              {" · working for "}
              <Since from={turn.started_at} say={ms => duration(Math.floor(ms / 1000) * 1000)} />
            </span>
          ) : null}
        </span>
      ) : null}
    </div>
  );
}

/** What cannot be drawn is shown as it came, so that one bad row hides nothing else. */
class RowBoundary extends Component<{ entry: Entry; children: ReactNode }, { failed: boolean; of: Entry | null }> {
  override state = { failed: false, of: null };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  static getDerivedStateFromProps(props: { entry: Entry }, state: { failed: boolean; of: Entry | null }) {
    return state.of === props.entry ? null : { failed: false, of: props.entry };
  }

  override render() {
    if (!this.state.failed) return this.props.children;
    const raw = JSON.stringify(this.props.entry, null, 2);
    return (
      <article className="turn broken" data-id={entryKey(this.props.entry)}>
        <p className="line bad">
          <Icon name="bang" />
          This could not be shown. Here is what it holds.
          <CopyButton label="Copy what it holds" text={() => raw} />
        </p>
        <pre tabIndex={0}>{visible(raw, { prose: true })}</pre>
      </article>
    );
  }
}
