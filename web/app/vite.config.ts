import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The page as the daemon serves it: hashed names, nothing inlined (the policy allows neither), our packages from their sources. */
export default defineConfig({
  plugins: [react()],
  resolve: { conditions: ["palaver-source", "module", "browser", "development|production"] },
  build: {
    outDir: "dist",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["chrome123", "firefox120", "safari17.5"],
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": { target: process.env.PALAVER_URL ?? "http://127.0.0.1:8787", ws: true } } },
});
