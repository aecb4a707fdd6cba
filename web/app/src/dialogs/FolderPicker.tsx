import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import { Icon } from "../ui/Icon";

interface Folders {
  path: string;
  parent: string | null;
  folders: { name: string; git?: boolean }[];
}

/** The machine's folders, one level at a time. */
export function FolderPicker({ from, choose }: { from: string; choose: (path: string) => void }) {
  const { daemon } = usePage();
  const [at, setAt] = useState(from);
  const [found, setFound] = useState<Folders | null>(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let late = false;
    const query = at === "" ? "" : `?${new URLSearchParams({ path: at })}`;
    daemon.ask<Folders>("GET", `/v1/folders${query}`).then(
      answer => {
        if (late) return;
        setFound(answer);
        setWrong("");
        choose(answer.path);
      },
      error => late || setWrong(wordsOf(error)),
    );
    return () => {
      late = true;
    };
  }, [at, daemon, choose]);
  return (
    <div className="picker" role="group" aria-label="Folders">
      {wrong ? <p role="alert">{visible(wrong)}</p> : null}
      {found?.parent ? (
        <button type="button" onClick={() => setAt(found.parent ?? "")}>
          <Icon name="up" />
          ..
        </button>
      ) : null}
      {(found?.folders ?? []).map(folder => (
        <button key={folder.name} type="button" onClick={() => setAt(`${found?.path.replace(/\/$/, "")}/${folder.name}`)}>
          <Icon name={folder.git ? "branch" : "folder"} />
          {visible(folder.name)}
        </button>
      ))}
    </div>
  );
}
