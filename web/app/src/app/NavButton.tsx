import { useSyncExternalStore } from "react";
import { useConnected } from "../daemon/connection";
import { grouped } from "../sidebar/grouped";
import { Icon } from "../ui/Icon";

/** On a narrow screen: opens the list. */
export function NavButton() {
  const { sessions } = useConnected();
  const needs = useSyncExternalStore(sessions.subscribe, () => grouped(sessions.get().sessions).needs.length);
  const toggle = () => document.getElementById("app")?.classList.toggle("nav");
  return (
    <button type="button" className="icon-btn only-s" aria-label={needs > 0 ? `Sessions, ${needs} need you` : "Sessions"} onClick={toggle}>
      <Icon name="menu" />
    </button>
  );
}
