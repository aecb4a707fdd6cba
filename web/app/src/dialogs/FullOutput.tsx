import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import { CopyButton } from "../ui/CopyButton";
import { Dialog } from "../ui/Dialog";

const PIECE = 1 << 18;

/** All that a call printed, stream by stream; or a stored file. */
export function FullOutput({
  sessionId,
  title,
  callId,
  streams,
  path,
  text: known = "",
  close,
}: {
  sessionId: string;
  title: string;
  callId?: string;
  streams?: string[];
  path?: string;
  text?: string;
  close: () => void;
}) {
  const { daemon } = usePage();
  const [text, setText] = useState(known);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let gone = false;
    const load = async () => {
      if (path) return (await daemon.file(`/v1/sessions/${sessionId}/${path.split("/").map(encodeURIComponent).join("/")}`)).text();
      let all = "";
      for (const stream of streams ?? []) {
        for (let offset: number | null = 0; offset !== null; ) {
          const query: string = new URLSearchParams({ stream, offset: String(offset), limit: String(PIECE) }).toString();
          const piece: { text: string; next_offset: number | null; total: number } = await daemon.ask(
            "GET",
            `/v1/sessions/${sessionId}/calls/${callId}/output?${query}`,
          );
          all += piece.text;
          offset = piece.text === "" || piece.next_offset === null || piece.next_offset >= piece.total ? null : piece.next_offset;
        }
      }
      return all || known;
    };
    load().then(
      all => gone || setText(all),
      error => gone || setWrong(wordsOf(error)),
    );
    return () => {
      gone = true;
    };
  }, [daemon, sessionId, callId, streams, path, known]);
  return (
    <Dialog label={visible(title)} close={close} wide>
      {wrong ? <p role="alert">{visible(wrong)}</p> : null}
      <div className="sheet output">
        <CopyButton label="Copy all of it" text={() => text} />
        <pre tabIndex={0}>{visible(text, { prose: true })}</pre>
      </div>
    </Dialog>
  );
}
