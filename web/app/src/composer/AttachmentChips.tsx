import { visible } from "@palaver/client";
import type { Attachment } from "../daemon/drafts";
import { bytes } from "../text/format";
import { Icon } from "../ui/Icon";

export interface Uploading {
  id: string;
  name: string;
  error?: string;
}

/** What goes along with the message. */
export function AttachmentChips({
  attached,
  uploading,
  remove,
  dismiss,
}: {
  attached: Attachment[];
  uploading: Uploading[];
  remove: (ref: string) => void;
  dismiss: (id: string) => void;
}) {
  if (attached.length + uploading.length === 0) return null;
  return (
    <ul className="attached" aria-label="Attached">
      {attached.map(one => (
        <li key={one.ref} className="chip">
          <Icon name="file" />
          {visible(one.name)} <span className="tnum">{bytes(one.size)}</span>
          <button type="button" className="icon-btn mini" aria-label={`Remove ${visible(one.name)}`} onClick={() => remove(one.ref)}>
            <Icon name="x" />
          </button>
        </li>
      ))}
      {uploading.map(one => (
        <li key={one.id} className={one.error ? "chip refused" : "chip"}>
          <Icon name={one.error ? "bang" : "ring"} spin={!one.error} />
          {visible(one.name)} {one.error ? <span>{visible(one.error)}</span> : null}
          {one.error ? (
            <button type="button" className="icon-btn mini" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
              <Icon name="x" />
            </button>
          ) : null}
        </li>
      ))}
    </ul>
  );
}
