import { defineConfig } from "vitest/config";

const conditions = ["palaver-source", "module", "browser", "development"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: "react",
    env: { REACT: "19" },
    environment: "happy-dom",
    include: ["tests/**/*.test.tsx"],
    setupFiles: ["tests/setup.ts"],
    testTimeout: 20_000,
    server: { deps: { inline: [/@testing-library\/react/] } },
  },
});
