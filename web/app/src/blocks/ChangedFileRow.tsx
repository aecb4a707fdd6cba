import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { useHere } from "../app/here";
import { wordsOf } from "../daemon/daemon";
import { Bars } from "../diff/Bars";
import { Counts } from "../diff/Counts";
import { DiffFiles } from "../diff/DiffFiles";
import type { ChangedFile } from "../shapes";
import { useToggle } from "../transcript/toggles";
import { Fold } from "../ui/Fold";
import { changesOf } from "./changes";

const WORD = { added: "new", deleted: "deleted", renamed: "renamed", modified: "" } as const;

/** One changed file. Its diff is asked for when it is opened. */
export function ChangedFileRow({ file, turnId }: { file: ChangedFile; turnId: string }) {
  const here = useHere();
  const id = `${turnId}:${file.path}`;
  const [open] = useToggle(here.toggles, id, false);
  return (
    <Fold
      id={id}
      className="file"
      chevronFirst
      summary={
        <>
          <span className="path">{visible(file.path)}</span>
          {WORD[file.change] ? <span className="chip mini">{WORD[file.change]}</span> : null}
          <span className="nums tnum">
            <Counts added={file.added} removed={file.removed} />
            <Bars added={file.added} removed={file.removed} />
          </span>
        </>
      }
    >
      {open ? <Loaded turnId={turnId} path={file.path} /> : null}
    </Fold>
  );
}

function Loaded({ turnId, path }: { turnId: string; path: string }) {
  const here = useHere();
  const [said, setSaid] = useState<{ diff?: string; stale?: boolean; error?: string }>({});
  useEffect(() => {
    let gone = false;
    changesOf(here, turnId).then(
      files => {
        const found = files.find(one => one.path === path);
        if (!gone) setSaid(found ? { diff: found.diff, stale: found.stale } : { error: "This diff is no longer kept." });
      },
      error => gone || setSaid({ error: wordsOf(error) }),
    );
    return () => {
      gone = true;
    };
  }, [here, turnId, path]);
  if (said.error) return <p className="note">{said.error}</p>;
  if (said.diff === undefined) return <p className="note">Loading…</p>;
  return (
    <>
      {said.stale ? <p className="note stale">This file changed since.</p> : null}
      <DiffFiles patch={said.diff} />
    </>
  );
}
