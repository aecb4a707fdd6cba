import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import { DiffFiles } from "../diff/DiffFiles";
import { Dialog } from "../ui/Dialog";

interface Change {
  path: string;
  change: string;
  diff: string;
  stale?: boolean;
}

/** All that this session changed, from its beginning to now. */
export function Changes({ sessionId, close }: { sessionId: string; close: () => void }) {
  const { daemon } = usePage();
  const [files, setFiles] = useState<Change[] | null>(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    daemon.ask<{ files: Change[] }>("GET", `/v1/sessions/${sessionId}/changes`).then(
      answer => setFiles(answer.files),
      error => setWrong(wordsOf(error)),
    );
  }, [daemon, sessionId]);
  return (
    <Dialog label="All changes" close={close} wide>
      <div className="sheet">
        {wrong ? <p role="alert">{visible(wrong)}</p> : null}
        {files?.length === 0 ? <p>This session has changed nothing.</p> : null}
        {files?.map(file => (
          <section key={file.path} aria-label={visible(file.path)}>
            {file.stale ? <p className="note stale">{visible(file.path)} changed since.</p> : null}
            <DiffFiles patch={file.diff} />
          </section>
        ))}
      </div>
    </Dialog>
  );
}
