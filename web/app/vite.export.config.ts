import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The renderer of exported sessions: one script and one style, which the daemon puts into a single file. */
export default defineConfig({
  plugins: [react()],
  define: { "process.env.NODE_ENV": '"production"' },
  resolve: { conditions: ["palaver-source", "module", "browser", "development|production"] },
  build: {
    outDir: "dist/export",
    target: ["chrome123", "firefox120", "safari17.5"],
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    reportCompressedSize: false,
    lib: { entry: "src/export/main.tsx", formats: ["iife"], name: "palaverExport", fileName: () => "export.js", cssFileName: "export" },
  },
});
