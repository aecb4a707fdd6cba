import { useAnnounce } from "../app/announce";
import { Icon } from "./Icon";

/** Puts a text on the clipboard and says so. The text is made when it is wanted. */
export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const say = useAnnounce();
  const copy = async () => {
    await navigator.clipboard.writeText(text());
    say("Copied");
  };
  return (
    <button type="button" className="icon-btn mini" aria-label={label} title={label} onClick={() => void copy()}>
      <Icon name="copy" />
    </button>
  );
}
