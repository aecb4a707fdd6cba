import { visible } from "@palaver/client";
import { useHere } from "../app/here";
import { BlockView } from "../blocks/BlockView";
import { blockKey } from "../blocks/keys";
import { NO_TAIL } from "../blocks/tail";
import type { Entry } from "../shapes";
import { clock } from "../text/format";
import { CopyButton } from "../ui/CopyButton";
import { Icon } from "../ui/Icon";

/** What was said to the agent, by its person, by another agent or by a mission. */
export function UserSaid({ entry, id }: { entry: Entry; id: string }) {
  const here = useHere();
  const { message } = entry;
  if (message === null) return null;
  const said = entry.blocks.filter(block => block.part);
  const rest = entry.blocks.filter(block => !block.part);
  const text = said.map(block => block.part?.text ?? "").join("\n");
  const note = noteOf(entry);
  return (
    <article className="turn user" data-id={id} data-turn={entry.turn_id} aria-label={`${whoOf(entry)}, ${clock(message.created_at)}`}>
      {said.map((block, place) => (
        <BlockView key={blockKey(block, place)} block={block} tail={NO_TAIL} live={false} own />
      ))}
      <div className="by">
        {note ? (
          <>
            <Icon name={note.icon} small />
            <span>{note.words}</span>
          </>
        ) : null}
        <span className="acts-of">
          <CopyButton label="Copy this message" text={() => text} />
          {here.readOnly || message.author.kind !== "user" ? null : (
            <button
              type="button"
              className="icon-btn mini"
              aria-label="Edit and send again, in a copy of this session"
              title="Edit and send again, in a copy of this session"
              onClick={() => here.resend(message.id, text)}
            >
              <Icon name="edit" />
            </button>
          )}
        </span>
      </div>
      {rest.length > 0 ? (
        <div className="rest">
          {rest.map((block, place) => (
            <BlockView key={blockKey(block, place)} block={block} tail={NO_TAIL} live={false} own={false} />
          ))}
        </div>
      ) : null}
    </article>
  );
}

function whoOf(entry: Entry): string {
  const author = entry.message?.author;
  if (author?.kind === "user") return "You";
  return visible(author?.name ?? author?.kind ?? "Somebody");
}

function noteOf(entry: Entry): { icon: "bolt" | "reply"; words: string } | null {
  if (entry.message?.author.kind !== "user") return { icon: "reply", words: `From ${whoOf(entry)}` };
  if (entry.delivery === "delivered") return { icon: "bolt", words: "Steered the running turn" };
  if (entry.delivery === "waiting") return { icon: "bolt", words: "Will be read at the next step" };
  return null;
}
