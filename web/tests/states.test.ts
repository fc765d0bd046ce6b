import { expect, test } from "vitest";
import { endText, hasFailed } from "../src/text/states";

test("how a training ended comes from its exit code, its error or who ended it", () => {
  const ended = { exit_code: 0, error: "", is_terminated: false };
  expect(endText(ended)).toBe("ended with exit code 0");
  expect(endText({ ...ended, exit_code: 1, error: "ended badly" })).toBe("ended: ended badly");
  expect(endText({ ...ended, exit_code: 130, error: "x", is_terminated: true })).toBe(
    "terminated by you",
  );
});

test("an exit code that is neither 0 nor that of Ctrl-C is a failure, unless the user ended it", () => {
  const ended = { state: "ended", exit_code: 1, is_terminated: false } as const;
  expect(hasFailed(ended)).toBe(true);
  expect(hasFailed({ ...ended, exit_code: 0 })).toBe(false);
  expect(hasFailed({ ...ended, exit_code: 130 })).toBe(false);
  expect(hasFailed({ ...ended, is_terminated: true })).toBe(false);
  expect(hasFailed({ ...ended, state: "running" })).toBe(false);
});
