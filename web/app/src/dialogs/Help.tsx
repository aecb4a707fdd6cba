import { IS_MAC, keyHint, PALETTE_HINT } from "../app/keys";
import { COMMANDS } from "../composer/commands";
import { Dialog } from "../ui/Dialog";

const KEYS: [string, string][] = [
  ["Enter", "Send; what it does while the agent works is said beside the message box"],
  ["Shift Enter", "A new line"],
  ["Alt Enter", "Queue instead of steer, or the other way round"],
  ["Esc Esc", "Stop the agent"],
  ["↑", "In an empty message box: what you said last"],
  [keyHint("Y"), "Allow the marked request once"],
  [keyHint("A"), "Allow it always, by the rule that it shows"],
  [keyHint("N"), "Deny it, with a note"],
  [`${keyHint("J")}, ${keyHint("K")}`, "The next, the previous thing that waits"],
  [PALETTE_HINT, "Search sessions and commands"],
  [keyHint("C"), "New session"],
  [IS_MAC ? "⌘ F" : "Ctrl F", "Search what was said; twice: the browser's own search"],
  ["F6", "To the next part of the page"],
];

/** Every key and every command, on one page. */
export function Help({ close }: { close: () => void }) {
  return (
    <Dialog label="Keys and commands" close={close} wide>
      <div className="sheet">
        <dl className="keys">
          {KEYS.map(([key, says]) => (
            <div key={key}>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{says}</dd>
            </div>
          ))}
        </dl>
        <dl className="keys">
          {COMMANDS.map(command => (
            <div key={command.name}>
              <dt>
                <code>
                  /{command.name}
                  {command.takes ? ` ${command.takes}` : ""}
                </code>
              </dt>
              <dd>{command.says}</dd>
            </div>
          ))}
          <div>
            <dt>
              <code>@path</code>
            </dt>
            <dd>Names a file of the folder</dd>
          </div>
          <div>
            <dt>
              <code>{"//name"}</code>
            </dt>
            <dd>The agent's own command of that name</dd>
          </div>
        </dl>
      </div>
    </Dialog>
  );
}
