import { ICONS, type IconName } from "./icons";

/** A drawing beside a word, never instead of one: screen readers do not hear of it. */
export function Icon({ name, spin = false, small = false }: { name: IconName; spin?: boolean; small?: boolean }) {
  return (
    <svg
      className={`i${name === "chev" ? " chev" : ""}${spin ? " spin" : ""}${small ? " small" : ""}`}
      viewBox="0 0 16 16"
      aria-hidden="true"
    >
      <path d={ICONS[name]} />
    </svg>
  );
}
