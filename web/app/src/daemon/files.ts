import { useEffect, useState } from "react";
import type { Here } from "../app/here";

/** A stored file as an address that an element can show; given back when nobody shows it. */
export function useFile(here: Here, path: string): string | undefined {
  const [url, setUrl] = useState<string>();
  const { addressOf } = here;
  useEffect(() => {
    if (addressOf) return;
    let made: string | undefined;
    let gone = false;
    here.daemon.file(`/v1/sessions/${here.sessionId}/${path.split("/").map(encodeURIComponent).join("/")}`).then(
      blob => {
        if (gone) return;
        made = URL.createObjectURL(blob);
        setUrl(made);
      },
      () => gone || setUrl(undefined),
    );
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [here, path, addressOf]);
  return addressOf ? addressOf(path) : url;
}
