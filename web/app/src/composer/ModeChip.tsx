import { visible } from "@palaver/client";
import { useAnnounce } from "../app/announce";
import { usePage } from "../app/page";
import { wordsOf } from "../daemon/daemon";
import type { SessionRow } from "../shapes";
import { Menu, MenuItem } from "../ui/Menu";

const MODES: Record<string, string> = { plan: "Plan only", ask: "Ask before writes", edit: "Edit freely, ask to run", auto: "Ask nothing" };

export function modeName(id: string, session?: SessionRow): string {
  return MODES[id] ?? session?.available_modes?.find(one => one.id === id)?.name ?? id;
}

/** What is asked first, and the choice of it. */
export function ModeChip({ session }: { session: SessionRow }) {
  const { daemon } = usePage();
  const say = useAnnounce();
  const modes = session.available_modes ?? [];
  if (modes.length === 0 || !session.mode) return null;
  const choose = (mode: string) => {
    daemon.ask("PATCH", `/v1/sessions/${session.id}`, { mode }).catch(error => say(wordsOf(error), "alert"));
  };
  const name = visible(modeName(session.mode, session));
  return (
    <Menu className="chip only-l" label={`Mode: ${name}`} icon={name}>
      {modes.map(mode => (
        <MenuItem key={mode.id} icon={mode.id === session.mode ? "check" : "circle"} act={() => choose(mode.id)}>
          {visible(modeName(mode.id, session))}
        </MenuItem>
      ))}
    </Menu>
  );
}
