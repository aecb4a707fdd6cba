import { useAnnounce } from "../app/announce";
import { useHere } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import { Icon } from "../ui/Icon";

/** What can be done with a turn that ended: copy it, try it again. */
export function TurnActions({ turnId, failed }: { turnId: string; failed: boolean }) {
  const here = useHere();
  const say = useAnnounce();
  if (here.readOnly) return null;
  const retry = () => {
    here.daemon.ask("POST", `/v1/sessions/${here.sessionId}/turns/${turnId}/retry`).catch(error => say(wordsOf(error), "alert"));
  };
  const copy = async () => {
    await navigator.clipboard.writeText(here.markdownOf(turnId));
    say("Copied");
  };
  return (
    <>
      <button
        type="button"
        className="icon-btn mini"
        aria-label="Copy this turn as Markdown"
        title="Copy this turn as Markdown"
        onClick={() => void copy()}
      >
        <Icon name="copy" />
      </button>
      {failed ? (
        <button type="button" className="btn mini" onClick={retry}>
          <Icon name="retry" />
          Try again
        </button>
      ) : null}
    </>
  );
}
