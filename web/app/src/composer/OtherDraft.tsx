import type { Draft, DraftState } from "../daemon/drafts";
import { Icon } from "../ui/Icon";

/** Somebody wrote elsewhere while this text was being written: theirs is offered, ours stays. */
export function OtherDraft({ draft, other }: { draft: Draft; other: DraftState["other"] }) {
  if (other === null) return null;
  return (
    <div className="paused" role="note">
      <Icon name="edit" />
      <span>This message was also written in another window.</span>
      <button type="button" className="btn mini" onClick={() => draft.choose(true)}>
        Take that one
      </button>
      <button type="button" className="btn quiet mini" onClick={() => draft.choose(false)}>
        Keep this one
      </button>
    </div>
  );
}
