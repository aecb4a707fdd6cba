import { defineConfig } from "vitest/config";

/** Every package with tests has a configuration of its own; this finds them. */
export default defineConfig({
  test: { projects: ["web/packages/*/vitest*.config.ts", "web/app/vitest*.config.ts"] },
});
