/** Once before all tests: what Python's fold makes of every golden log after each event. */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));

export default function setup(project: TestProject): void {
  const said = execFileSync(`${ROOT}.venv/bin/python`, ["scripts/transcripts.py"], { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 28 });
  project.provide("transcripts", said);
}

declare module "vitest" {
  interface ProvidedContext {
    transcripts: string;
  }
}
