/** A real daemon with the demo model, as a process of its own; and how to wait for what it does. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import { type Client, createClient } from "../src/index.js";

export const ROOT = fileURLToPath(new URL("../../../../", import.meta.url));
const DEADLINE_MS = 15_000;

/** The first true value of `condition`; an error with `what` when the deadline passes. */
export async function until<T>(condition: () => T, what = "it did not happen in time", deadlineMs = DEADLINE_MS): Promise<NonNullable<T>> {
  const end = Date.now() + deadlineMs;
  for (;;) {
    const value = condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(what);
    await new Promise(resolve => setTimeout(resolve, 5));
  }
}

export class Daemon {
  readonly folder = mkdtempSync(join(tmpdir(), "palaver-"));
  readonly workspace = join(this.folder, "work");
  readonly #clients: Client[] = [];
  #process: ChildProcess | undefined;
  url = "";
  token = "";

  /** Start it, on a port of its own or on the one that it had. */
  async start(port = 0, ...options: string[]): Promise<this> {
    mkdirSync(this.workspace, { recursive: true });
    const data = join(this.folder, "data");
    const { PALAVER_TOKEN: _, PALAVER_URL: __, ...environment } = process.env;
    const env = { ...environment, PALAVER_DISCOVER: "0", HOME: this.folder, XDG_CONFIG_HOME: join(this.folder, "config") };
    const child = spawn(`${ROOT}.venv/bin/palaver`, ["serve", "--data", data, "--port", String(port), ...options], {
      env,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#process = child;
    let said = "";
    child.stdout?.on("data", piece => {
      said += piece;
    });
    child.stderr?.on("data", piece => {
      said += piece;
    });
    await until(() => said.includes("http://") || child.exitCode !== null, "the daemon did not start");
    if (child.exitCode !== null) throw new Error(said);
    const facts = JSON.parse(readFileSync(join(data, "daemon.json"), "utf8")) as { url: string; token_file: string };
    this.url = facts.url;
    this.token = readFileSync(facts.token_file, "utf8").trim();
    return this;
  }

  get port(): number {
    return Number(new URL(this.url).port);
  }

  client(token = this.token): Client {
    const client = createClient({ url: this.url, token, WebSocket });
    this.#clients.push(client);
    return client;
  }

  /** End the process, as a crash would or as SIGTERM asks; its data stays. */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM"): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child === undefined || child.exitCode !== null) return;
    child.kill(signal);
    await once(child, "exit");
  }

  async end(): Promise<void> {
    for (const client of this.#clients) client.close();
    await this.stop("SIGKILL");
    rmSync(this.folder, { recursive: true, force: true });
  }
}
