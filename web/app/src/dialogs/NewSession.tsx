import { visible } from "@palaver/client";
import { type FormEvent, useEffect, useState } from "react";
import { usePage } from "../app/page";
import { modeName } from "../composer/ModeChip";
import { type AgentRow, useAgents } from "../daemon/agents";
import { Refusal, wordsOf } from "../daemon/daemon";
import { useSessions } from "../daemon/sessions";
import { Dialog } from "../ui/Dialog";
import { FolderPicker } from "./FolderPicker";

interface Workspace {
  path: string;
  name: string;
}

/** Who, where, with what model, and what is asked first. */
export function NewSession({
  close,
  workspace,
  agent: begun,
}: {
  close: () => void;
  workspace?: string | undefined;
  agent?: string | undefined;
}) {
  const page = usePage();
  const { sessions } = useSessions();
  const agents = useAgents();
  const [workspaces, setWorkspaces] = useState<Workspace[]>([]);
  const [path, setPath] = useState(workspace ?? sessions[0]?.workspace_path ?? "");
  const [agentName, setAgent] = useState(begun ?? "");
  const [model, setModel] = useState("");
  const [mode, setMode] = useState("");
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const [picking, setPicking] = useState(false);
  const agent = agents.find(one => one.name === agentName);
  useEffect(() => {
    page.daemon.ask<{ workspaces: Workspace[] }>("GET", "/v1/workspaces").then(
      answer => {
        setWorkspaces(answer.workspaces);
        setPath(now => now || (answer.workspaces[0]?.path ?? ""));
      },
      () => {},
    );
  }, [page]);
  const create = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    try {
      const body = { workspace_path: path.trim(), ...given("agent", agentName), ...given("model", model), ...given("mode", mode) };
      const { session_id } = await page.daemon.ask<{ session_id: string }>("POST", "/v1/sessions", body);
      close();
      page.go(session_id);
    } catch (error) {
      setWrong(error instanceof Refusal && error.code === "workspace_unknown" ? `${error.detail}` : wordsOf(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog label="New session" close={close}>
      <form className="form" onSubmit={create}>
        <label>
          Folder
          <span className="with-button">
            <input
              name="workspace"
              list="workspaces"
              value={path}
              onChange={event => setPath(event.target.value)}
              placeholder="/home/you/project"
              autoComplete="off"
              spellCheck={false}
              required
            />
            <button type="button" className="btn" onClick={() => setPicking(!picking)}>
              Choose…
            </button>
          </span>
          <datalist id="workspaces">
            {workspaces.map(one => (
              <option key={one.path} value={one.path} />
            ))}
          </datalist>
        </label>
        {picking ? <FolderPicker from={path} choose={setPath} /> : null}
        <label>
          Agent
          <select
            name="agent"
            value={agentName}
            onChange={event => {
              setAgent(event.target.value);
              setModel("");
              setMode("");
            }}
          >
            <option value="">The default</option>
            {agents.map(one => (
              <option key={one.name} value={one.name} disabled={!one.ready}>
                {visible(one.title)}
                {one.ready ? "" : ` (${visible(one.reason ?? "not ready")})`}
              </option>
            ))}
          </select>
        </label>
        <Choices name="model" label="Model" value={model} change={setModel} choices={namesOf(agent?.models)} />
        <Choices
          name="mode"
          label="Mode"
          value={mode}
          change={setMode}
          choices={namesOf(agent?.modes).map(one => ({ ...one, name: modeName(one.id) }))}
        />
        {wrong ? <p role="alert">{visible(wrong)}</p> : null}
        <div className="acts">
          <button type="submit" className="btn primary" disabled={busy}>
            Begin
          </button>
          <button type="button" className="btn quiet" onClick={close}>
            Cancel
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function given(key: string, value: string): Record<string, string> {
  return value === "" ? {} : { [key]: value };
}

function namesOf(choices: AgentRow["models"] | string[]): { id: string; name: string }[] {
  return (choices ?? []).map(one => (typeof one === "string" ? { id: one, name: one } : one));
}

function Choices({
  name,
  label,
  value,
  change,
  choices,
}: {
  name: string;
  label: string;
  value: string;
  change: (value: string) => void;
  choices: { id: string; name: string }[];
}) {
  if (choices.length === 0) return null;
  return (
    <label>
      {label}
      <select name={name} value={value} onChange={event => change(event.target.value)}>
        <option value="">The default</option>
        {choices.map(one => (
          <option key={one.id} value={one.id}>
            {visible(one.name)}
          </option>
        ))}
      </select>
    </label>
  );
}
