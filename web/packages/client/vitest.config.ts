import { defineConfig } from "vitest/config";

const conditions = ["palaver-source", "module", "node", "development"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: { name: "client", include: ["tests/**/*.test.ts"], globalSetup: ["tests/global-setup.ts"], testTimeout: 20_000 },
});
