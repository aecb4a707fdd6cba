import { useState } from "react";
import { useFiles } from "../daemon/connection";
import { wordsOf } from "../daemon/daemon";
import type { Draft } from "../daemon/drafts";
import type { Uploading } from "./AttachmentChips";

/** A paste longer than this becomes a file: it is for the agent to read, not for the text box to hold. */
export const LONG_PASTE = 4096;

/** Puts files beside the draft: stored first, then named. */
export function useAttaching(sessionId: string, draft: Draft) {
  const files = useFiles();
  const [uploading, setUploading] = useState<Uploading[]>([]);
  const attach = async (file: File) => {
    const id = crypto.randomUUID();
    setUploading(all => [...all, { id, name: file.name }]);
    try {
      const stored = await files.upload(sessionId, file);
      draft.write({ attachments: [...draft.get().attachments, stored] });
      setUploading(all => all.filter(one => one.id !== id));
    } catch (error) {
      setUploading(all => all.map(one => (one.id === id ? { ...one, error: wordsOf(error) } : one)));
    }
  };
  const take = (data: DataTransfer | null): boolean => {
    const list = [...(data?.files ?? [])];
    for (const file of list) void attach(file);
    if (list.length > 0) return true;
    const text = data?.getData("text/plain") ?? "";
    if (new Blob([text]).size <= LONG_PASTE) return false;
    void attach(new File([text], "pasted.txt", { type: "text/plain" }));
    return true;
  };
  const dismiss = (id: string) => setUploading(all => all.filter(one => one.id !== id));
  return { uploading, attach, take, dismiss };
}
