import { visible } from "@palaver/client";
import { useEffect, useState } from "react";
import { KINDS, type NotifyKind, notifications } from "../app/notifications";
import { usePage } from "../app/page";
import { type Theme, theme } from "../app/theme";
import { wordsOf } from "../daemon/daemon";
import { Dialog } from "../ui/Dialog";
import { SettingField } from "./SettingField";

interface Settings {
  values: Record<string, unknown>;
  origins: Record<string, string>;
  schema: { properties?: Record<string, Record<string, unknown>> } & Record<string, unknown>;
}

const THEMES: [Theme, string][] = [
  ["system", "As the system"],
  ["light", "Light"],
  ["dark", "Dark"],
];
const KIND_WORDS: Record<NotifyKind, string> = { needs_you: "Something needs me", finished: "A turn finished", failed: "A turn failed" };

/** This browser's own choices, and the daemon's settings with where each of them comes from. */
export function SettingsDialog({ close }: { close: () => void }) {
  const page = usePage();
  const [settings, setSettings] = useState<Settings | null>(null);
  const [said, setSaid] = useState("");
  const [chosen, setChosen] = useState(theme.get());
  const [kinds, setKinds] = useState(notifications.kinds());
  const [allowed, setAllowed] = useState(notifications.allowed());
  useEffect(() => {
    page.daemon.ask<Settings>("GET", "/v1/settings").then(setSettings, error => setSaid(wordsOf(error)));
  }, [page]);
  const change = async (key: string, value: unknown) => {
    try {
      const answer = await page.daemon.ask<{ restart_needed?: string[] }>("PATCH", "/v1/settings", { values: { [key]: value } });
      setSaid(answer.restart_needed?.includes(key) ? `${key} counts from the next start on` : `${key} saved`);
      setSettings(await page.daemon.ask<Settings>("GET", "/v1/settings"));
    } catch (error) {
      setSaid(wordsOf(error));
    }
  };
  return (
    <Dialog label="Settings" close={close} wide>
      <div className="sheet form">
        <fieldset>
          <legend>Theme</legend>
          {THEMES.map(([id, name]) => (
            <label key={id} className="line">
              <input
                type="radio"
                name="theme"
                checked={chosen === id}
                onChange={() => {
                  theme.set(id);
                  setChosen(id);
                }}
              />
              {name}
            </label>
          ))}
        </fieldset>
        <fieldset>
          <legend>Notifications</legend>
          {allowed ? null : (
            <button type="button" className="btn" onClick={() => void notifications.ask().then(setAllowed)}>
              Allow notifications in this browser
            </button>
          )}
          {KINDS.map(kind => (
            <label key={kind} className="line">
              <input
                type="checkbox"
                checked={kinds.includes(kind)}
                onChange={event => setKinds(notifications.choose(kind, event.target.checked))}
                disabled={!allowed}
              />
              {KIND_WORDS[kind]}
            </label>
          ))}
        </fieldset>
        <p role="status">{visible(said)}</p>
        {settings ? (
          <fieldset>
            <legend>The daemon</legend>
            {Object.entries(flat(settings.values)).map(([key, value]) => (
              <SettingField
                key={key}
                name={key}
                value={value}
                origin={settings.origins[key] ?? "default"}
                change={next => void change(key, next)}
              />
            ))}
          </fieldset>
        ) : null}
        <div className="acts">
          <button type="button" className="btn quiet" onClick={page.signOut}>
            Sign out
          </button>
        </div>
      </div>
    </Dialog>
  );
}

function flat(values: Record<string, unknown>, prefix = ""): Record<string, unknown> {
  const found: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(values)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
      Object.assign(found, flat(value as Record<string, unknown>, `${prefix}${key}.`));
    else found[prefix + key] = value;
  }
  return found;
}
