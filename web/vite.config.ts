import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const HERE = import.meta.dirname;
// What the built page is made from. wire.ts holds types only: nothing of it is left in a build.
const LEFT_OUT = new Set(["src/wire.ts"]);

function sources(folder: string): string[] {
  return readdirSync(join(HERE, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(HERE, join(entry.parentPath, entry.name)));
}

/** Leaves the digest of the sources beside the page; tests/web tells by it when the page is stale. */
function stamp(): Plugin {
  return {
    name: "stamp",
    generateBundle() {
      const digest = createHash("sha256");
      const names = [
        "index.html",
        "package.json",
        "vite.config.ts",
        ...sources("src"),
        ...sources("public"),
      ];
      for (const name of names.filter((each) => !LEFT_OUT.has(each)).sort()) {
        digest
          .update(`${name}\0`)
          .update(readFileSync(join(HERE, name)))
          .update("\0");
      }
      this.emitFile({
        type: "asset",
        fileName: "sources.sha256",
        source: `${digest.digest("hex")}\n`,
      });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [stamp()],
  worker: { format: "es" },
  build: {
    outDir: "../src/sonde/server/static",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: {
    proxy: {
      "/api": {
        target: process.env.SONDE_SERVER ?? "http://127.0.0.1:8080",
        ws: true,
        headers: { authorization: `Bearer ${process.env.SONDE_DEBUGGER_TOKEN ?? ""}` },
      },
    },
  },
});
