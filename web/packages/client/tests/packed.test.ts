/** Both packages as `npm pack` makes them, in a project of their own: their READMEs' programs compile strictly and do what they say. */

import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Daemon, ROOT } from "./daemon.js";

const run = promisify(execFile);
const LINKED = ["ws", "happy-dom", "@types/react", "@types/ws", "@types/node", "csstype", "undici-types"];
const READMES = { client: blocks("client", "ts"), react: blocks("react", "tsx") };
const OPTIONS = {
  target: "ES2022",
  lib: ["ES2023", "DOM", "DOM.Iterable"],
  module: "NodeNext",
  jsx: "react-jsx",
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  types: ["node"],
  outDir: "out",
  rootDir: ".",
};

let daemon: Daemon;
let project: string;

/** The programs of a README, in their order. */
function blocks(name: string, language: string): string[] {
  const readme = readFileSync(`${ROOT}web/packages/${name}/README.md`, "utf8");
  return [...readme.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "gs"))].map(match => match[1] ?? "");
}

/** A folder with the packed packages and this React, where everything else is as in the checkout. */
async function install(folder: string, packed: string, react: string): Promise<void> {
  const modules = join(folder, "node_modules");
  for (const scope of ["@palaver", "@types"]) mkdirSync(join(modules, scope), { recursive: true });
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  for (const name of LINKED) symlinkSync(`${ROOT}node_modules/${name}`, join(modules, name));
  for (const name of ["react", "react-dom"]) symlinkSync(`${ROOT}${react}/${name}`, join(modules, name));
  for (const name of ["client", "react"]) {
    const home = join(modules, "@palaver", name);
    mkdirSync(home);
    await run("tar", ["-xzf", join(packed, `palaver-${name}-0.1.0.tgz`), "-C", home, "--strip-components=1"]);
  }
}

beforeAll(async () => {
  project = mkdtempSync(join(tmpdir(), "packed-"));
  const [started] = await Promise.all([new Daemon().start(), pack()]);
  daemon = started;
}, 120_000);

async function pack(): Promise<void> {
  for (const name of ["client", "react"]) {
    await run("npm", ["pack", "--silent", "--workspace", `@palaver/${name}`, "--pack-destination", project], { cwd: ROOT });
  }
  await install(project, project, "node_modules");
  await install(join(project, "old"), project, "web/react-18/node_modules");
  READMES.client.forEach((code, place) => {
    writeFileSync(join(project, `client-${place}.ts`), code);
  });
  READMES.react.forEach((code, place) => {
    writeFileSync(join(project, `react-${place}.tsx`), code);
  });
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: OPTIONS, include: ["*.ts", "*.tsx"] }));
  await run(`${ROOT}node_modules/.bin/tsc`, ["-p", project]).catch(error => {
    throw new Error(error.stdout);
  });
}

afterAll(async () => {
  await daemon?.end();
  rmSync(project, { recursive: true, force: true });
});

async function says(folder: string, ...command: string[]): Promise<string> {
  const env = { ...process.env, PALAVER_URL: daemon.url, PALAVER_TOKEN: daemon.token };
  const { stdout, stderr } = await run(process.execPath, command, { cwd: folder, env, timeout: 30_000 });
  expect(stderr).toBe("");
  return stdout.trim();
}

describe("@palaver/client's README", () => {
  const SAID = [
    /^idle user,assistant$/,
    /^(ready,)?thinking(,ready)? true$/,
    /^false null false$/,
    /session_restored.*tool_call_start.*execution_end$/,
  ];
  test("has its four levels and the transcript", () => expect(READMES.client.length).toBe(5));
  test.each([...SAID, /^text thinking.*tool.*text turn_end$/].map((said, level) => ({ level, said })))(
    "level $level runs",
    async ({ level, said }) => {
      expect(await says(project, `out/client-${level}.js`)).toMatch(said);
    },
  );
});

describe("@palaver/react's README", () => {
  const [APP, ...LEVELS] = READMES.react;
  const SHOWN = [
    "idleuserassistant",
    "ready.*read only",
    "active.*hello",
    "session_restored.*tool_call_start.*execution_end",
    "hello.*completed",
  ];

  test("has its four levels and a whole app of under 60 lines", () => {
    expect(LEVELS.length).toBe(5);
    expect(
      LEVELS.at(-1)
        ?.split("\n")
        .filter(line => line.trim() !== "").length,
    ).toBeLessThan(60);
    expect(APP).toContain("PalaverProvider");
  });

  test.each(SHOWN.map((shown, level) => ({ level, shown })))(
    "level $level shows what it says under React 18 and 19",
    async ({ level, shown }) => {
      const file = `react-${level + 1}.js`;
      for (const folder of [project, join(project, "old")]) {
        copyFileSync(join(ROOT, "web/packages/client/tests/render-block.mjs"), join(folder, "render-block.mjs"));
        copyFileSync(join(project, "out", file), join(folder, file));
      }
      const [newest, oldest] = await Promise.all(
        [project, join(project, "old")].map(folder => says(folder, "render-block.mjs", file, shown)),
      );
      expect(newest).toMatch(/^19\./);
      expect(oldest).toMatch(/^18\./);
    },
  );
});

test("a packed package holds its code, its types, its licence and its README, and nothing else", async () => {
  for (const name of ["client", "react"]) {
    const { stdout } = await run("tar", ["-tzf", join(project, `palaver-${name}-0.1.0.tgz`)]);
    const files = stdout
      .trim()
      .split("\n")
      .map(file => file.replace(/^package\//, ""));
    expect(files).toEqual(expect.arrayContaining(["package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts"]));
    expect(files.filter(file => !/^(package\.json|README\.md|LICENSE|dist\/.*\.(js|d\.ts))$/.test(file))).toEqual([]);
  }
});
