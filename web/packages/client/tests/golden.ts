/** The golden files that both languages read. */

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Logged, Provisional } from "../src/wire.gen.js";

export const GOLDEN = fileURLToPath(new URL("../../../../golden/", import.meta.url));

export function read(name: string): string {
  return readFileSync(`${GOLDEN}${name}`, "utf8");
}

export function names(folder: string, end: string): string[] {
  return readdirSync(`${GOLDEN}${folder}`)
    .filter(name => name.endsWith(end))
    .sort();
}

/** The lines of a log; of a stream with its tail also the pieces, which have no `seq`. */
export function lines(name: string): Array<Logged | Provisional> {
  return read(name)
    .split("\n")
    .filter(line => line !== "")
    .map(line => JSON.parse(line) as Logged | Provisional);
}

export function isLogged(event: Logged | Provisional): event is Logged {
  return "seq" in event && event.seq > 0;
}
