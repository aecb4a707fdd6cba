import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { useAnnounce } from "../app/announce";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import { DiffFiles } from "../diff/DiffFiles";
import { Dialog } from "../ui/Dialog";

interface Preview {
  files: { path: string; action: string; diff?: string }[];
  conflicts: { path: string; reason: string }[];
}

const ACTIONS: Record<string, string> = { restored: "as it was before", deleted: "removed", recreated: "there again" };

/** What taking back a turn would do, before it is done. What somebody changed since stays as it is. */
export function Undo({ sessionId, turnId, redo, close }: { sessionId: string; turnId: string; redo: boolean; close: () => void }) {
  const { daemon } = usePage();
  const say = useAnnounce();
  const [preview, setPreview] = useState<Preview | null>(null);
  const [wrong, setWrong] = useState("");
  const path = `/v1/sessions/${sessionId}/turns/${turnId}/undo`;
  useEffect(() => {
    daemon.ask<Preview>("POST", path, { preview: true, redo }).then(setPreview, error => setWrong(wordsOf(error)));
  }, [daemon, path, redo]);
  const go = () => {
    daemon.ask("POST", path, { redo }).then(
      () => {
        say(redo ? "Done again" : "Taken back");
        close();
      },
      error => setWrong(wordsOf(error)),
    );
  };
  return (
    <Dialog label={redo ? "Do this turn's changes again" : "Take back this turn's changes"} close={close} wide>
      <div className="sheet">
        {wrong ? <p role="alert">{visible(wrong)}</p> : null}
        {preview?.conflicts.length ? (
          <section>
            <h3>These stay as they are</h3>
            <ul>
              {preview.conflicts.map(one => (
                <li key={one.path}>
                  <code>{visible(one.path)}</code>: {visible(one.reason)}
                </li>
              ))}
            </ul>
          </section>
        ) : null}
        {preview?.files.map(file => (
          <section key={file.path}>
            <p>
              <code>{visible(file.path)}</code> {ACTIONS[file.action] ?? visible(file.action)}
            </p>
            {file.diff ? <DiffFiles patch={file.diff} /> : null}
          </section>
        ))}
        {preview && preview.files.length === 0 ? <p>There is nothing left to {redo ? "do again" : "take back"}.</p> : null}
        <div className="acts">
          <button type="button" className="btn primary" disabled={!preview || preview.files.length === 0} onClick={go}>
            {redo ? "Do it again" : "Take it back"}
          </button>
          <button type="button" className="btn quiet" onClick={close}>
            Cancel
          </button>
        </div>
      </div>
    </Dialog>
  );
}
