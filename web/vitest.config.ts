import { defineConfig } from "vitest/config";

// Styles are tested, too: without this they would be empty there.
export default defineConfig({ test: { css: true } });
