import { visible } from "@palaver/client";

const ORIGINS: Record<string, string> = {
  file: "from the settings file",
  env: "from the environment",
  default: "",
  flag: "from the command line",
};

/** One setting of the daemon. What the API may not change shows as it is. */
export function SettingField({
  name,
  value,
  origin,
  change,
}: {
  name: string;
  value: unknown;
  origin: string;
  change: (value: unknown) => void;
}) {
  const label = (
    <span>
      <code>{visible(name)}</code> <small>{ORIGINS[origin] ?? visible(origin)}</small>
    </span>
  );
  if (typeof value === "boolean") {
    return (
      <label className="line">
        <input type="checkbox" checked={value} onChange={event => change(event.target.checked)} />
        {label}
      </label>
    );
  }
  if (typeof value === "number" || typeof value === "string") {
    const commit = (text: string) => {
      if (text !== String(value)) change(typeof value === "number" ? Number(text) : text);
    };
    return (
      <label>
        {label}
        <input
          key={String(value)}
          type={typeof value === "number" ? "number" : "text"}
          defaultValue={String(value)}
          onBlur={event => commit(event.target.value)}
        />
      </label>
    );
  }
  return (
    <p className="line">
      {label} <span>{value === null || value === undefined ? "not set" : visible(JSON.stringify(value))}</span>
    </p>
  );
}
