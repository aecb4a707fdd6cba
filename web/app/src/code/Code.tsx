import { visible } from "@palaver/client";
import { useEffect, useRef } from "react";
import { CopyButton } from "../ui/CopyButton";
import { watch } from "./paint";

/** A block of code: one piece of text, coloured once it is closed and in view. */
export function Code({ text, language, open = false }: { text: string; language: string; open?: boolean }) {
  const code = useRef<HTMLElement>(null);
  const name = language.trim().split(/\s+/)[0]?.toLowerCase() ?? "";
  // biome-ignore lint/correctness/useExhaustiveDependencies: another text is painted anew
  useEffect(() => (open || code.current === null ? undefined : watch(code.current)), [open, text, name]);
  return (
    <figure className="code">
      <figcaption>
        <span>{visible(name)}</span>
        <CopyButton label="Copy code" text={() => text} />
      </figcaption>
      <pre tabIndex={0}>
        <code ref={code} data-language={name}>
          {visible(text, { prose: true })}
        </code>
      </pre>
    </figure>
  );
}
