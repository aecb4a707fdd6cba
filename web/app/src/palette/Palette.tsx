import { visible } from "@palaver/client";
import { Fragment, type KeyboardEvent, useMemo, useState } from "react";
import { usePage } from "../app/page";
import { useSessions } from "../daemon/sessions";
import { Dot } from "../sidebar/Dot";
import { Dialog } from "../ui/Dialog";
import { Icon } from "../ui/Icon";
import { type Item, items, matching } from "./items";

const KEYS = { new: "Alt C", search: "Ctrl F" };

/** Search sessions, run commands. */
export function Palette({ current, close, query: begun = "" }: { current: string | null; close: () => void; query?: string | undefined }) {
  const page = usePage();
  const { sessions } = useSessions();
  const [query, setQuery] = useState(begun);
  const [chosen, setChosen] = useState(0);
  const all = useMemo(
    () =>
      items(
        page,
        sessions,
        sessions.find(one => one.id === current),
        KEYS,
      ),
    [page, sessions, current],
  );
  const found = useMemo(() => matching(all, query), [all, query]);
  const at = Math.min(chosen, Math.max(0, found.length - 1));
  const run = (item: Item | undefined) => {
    if (!item) return;
    close();
    item.act();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setChosen((at + 1) % Math.max(1, found.length));
    else if (event.key === "ArrowUp") setChosen((at - 1 + found.length) % Math.max(1, found.length));
    else if (event.key === "Enter") run(found[at]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog label="Commands" close={close} bare>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="cmds"
        aria-activedescendant={found[at] ? `cmd-${at}` : undefined}
        aria-label="Search sessions and commands"
        placeholder="Search sessions and commands"
        autoComplete="off"
        value={query}
        onChange={event => {
          setQuery(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKey}
      />
      <div className="cmds" id="cmds" role="listbox" aria-label="Results">
        {found.map((item, place) => (
          <Fragment key={item.id}>
            {item.group === found[place - 1]?.group ? null : (
              <div className="eyebrow" role="presentation">
                {item.group}
              </div>
            )}
            {/* biome-ignore lint/a11y/useKeyWithClickEvents: the box that owns this list takes the keys */}
            <div
              id={`cmd-${place}`}
              role="option"
              tabIndex={-1}
              aria-selected={place === at}
              ref={place === at ? intoView : null}
              onClick={() => run(item)}
            >
              {item.session ? <Dot session={item.session} /> : item.icon ? <Icon name={item.icon} /> : null}
              <span>{visible(item.label)}</span>
              {item.detail ? <small>{visible(item.detail)}</small> : null}
              {item.keys ? <kbd>{item.keys}</kbd> : null}
            </div>
          </Fragment>
        ))}
        {found.length === 0 ? (
          <div className="eyebrow" role="presentation">
            Nothing by that name
          </div>
        ) : null}
      </div>
    </Dialog>
  );
}

function intoView(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: "nearest" });
}
