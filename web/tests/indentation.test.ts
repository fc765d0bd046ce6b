import { expect, test } from "vitest";
import { outdented } from "../src/text/indentation";

test("what all lines begin with is left out, the rest of the indentation stays", () => {
  expect(outdented(["        if a:", "", "            b()", "        c()"])).toEqual([
    "if a:",
    "",
    "    b()",
    "c()",
  ]);
  expect(outdented(["a", "    b"])).toEqual(["a", "    b"]);
});

test("tabs and spaces are not mixed up, and blank lines do not count", () => {
  expect(outdented(["\t\ta", "\t    b", " "])).toEqual(["\ta", "    b", ""]);
  expect(outdented(["", ""])).toEqual(["", ""]);
  expect(outdented([])).toEqual([]);
});
