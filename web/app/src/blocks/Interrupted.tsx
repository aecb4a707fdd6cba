import type { ReactNode } from "react";
import { Icon } from "../ui/Icon";

/** Where something was cut off: what there is of it is kept. */
export function Interrupted({ children }: { children?: ReactNode }) {
  return (
    <p className="stopped">
      <Icon name="warn" />
      <InterruptedWord />
      {children}
    </p>
  );
}

/** The word as every client writes it. The sign is for the eye that reads text; the icon beside it is for the one that sees. */
export function InterruptedWord() {
  return (
    <b>
      <span className="glyph" aria-hidden="true">
        ⚠
      </span>{" "}
      Interrupted
    </b>
  );
}
