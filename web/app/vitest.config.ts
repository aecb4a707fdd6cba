import { defineConfig } from "vitest/config";

const conditions = ["palaver-source", "module", "browser", "development"];

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name: "app",
    environment: "happy-dom",
    include: ["tests/**/*.test.tsx"],
    testTimeout: 60_000,
    server: { deps: { inline: [/@testing-library\/react/] } },
  },
});
