import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const HERE = import.meta.dirname;

/** Leaves the digests of the sources beside the script; tests/web tells by them when it is stale. */
function stamp(): Plugin {
  return {
    name: "stamp",
    generateBundle() {
      const sources = [...this.getModuleIds()]
        .map((id) => relative(HERE, id.split("?")[0] ?? ""))
        .filter((name) => /^(report|src)\//.test(name));
      const names = [...new Set(["vite.report.config.ts", ...sources])].sort();
      const lines = names.map(
        (name) =>
          `${createHash("sha256")
            .update(readFileSync(join(HERE, name)))
            .digest("hex")}  ${name}\n`,
      );
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: lines.join("") });
    },
  };
}

// One script and one stylesheet, which src/sonde/report writes into every page.
export default defineConfig({
  plugins: [stamp()],
  publicDir: false,
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    outDir: "../src/sonde/report/static",
    emptyOutDir: true,
    target: "es2022",
    reportCompressedSize: false,
    lib: {
      entry: "report/main.tsx",
      name: "SondeReport",
      formats: ["iife"],
      fileName: () => "report.js",
      cssFileName: "report",
    },
  },
});
