// typescript-eslint reads types through the JavaScript API of TypeScript 6; the native compiler
// (TypeScript 7, `@typescript/native`, the `tsc` of `npm run types`) does not offer that API yet.
// Hence two compilers in package.json: `typescript` is version 6 and serves the linter only.
import eslint from "@eslint/js";
import { defineConfig } from "eslint/config";
import tseslint from "typescript-eslint";

export default defineConfig(
  { ignores: ["node_modules", "src/wire.ts"] },
  eslint.configs.recommended,
  tseslint.configs.strictTypeChecked,
  tseslint.configs.stylisticTypeChecked,
  {
    languageOptions: {
      parserOptions: {
        projectService: true,
        tsconfigRootDir: import.meta.dirname,
      },
    },
    rules: {
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-console": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/explicit-function-return-type": ["error", { allowExpressions: true }],
      "@typescript-eslint/switch-exhaustiveness-check": "error",
      // Arrow functions that only pass a call on, such as event listeners, stay one line.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // A number in a text needs no String() around it.
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: false, allowNullish: false },
      ],
      "@typescript-eslint/no-unused-vars": [
        "error",
        { argsIgnorePattern: "^_", varsIgnorePattern: "^_", destructuredArrayIgnorePattern: "^_" },
      ],
    },
  },
  // Prettier wraps code at 100 columns; this is for comments.
  {
    files: ["src/**", "tests/**"],
    rules: {
      "max-len": [
        "error",
        { code: 100, ignoreStrings: true, ignoreTemplateLiterals: true, ignorePattern: '="' },
      ],
    },
  },
  // The tools' own settings belong to no TypeScript project.
  { files: ["*.js"], extends: [tseslint.configs.disableTypeChecked] },
);
