import { useEffect, useSyncExternalStore } from "react";
import { useConnected } from "../daemon/connection";
import { grouped } from "../sidebar/grouped";
import { Icon } from "../ui/Icon";

/** On a narrow screen: opens the list. */
export function NavButton() {
  const { sessions } = useConnected();
  const needs = useSyncExternalStore(sessions.subscribe, () => grouped(sessions.get().sessions).needs.length);
  useEffect(() => {
    const away = (event: PointerEvent) => {
      const at = event.target as Element;
      if (!at.closest(".side, .top .only-s, dialog")) document.getElementById("app")?.classList.remove("nav");
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, []);
  const toggle = () => document.getElementById("app")?.classList.toggle("nav");
  return (
    <button type="button" className="icon-btn only-s" aria-label={needs > 0 ? `Sessions, ${needs} need you` : "Sessions"} onClick={toggle}>
      <Icon name="menu" />
    </button>
  );
}
