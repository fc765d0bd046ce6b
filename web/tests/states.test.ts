import { expect, test } from "vitest";
import { endText, hitText } from "../src/text/states";
import type { HitRef } from "../src/wire";

const HIT: HitRef = {
  watchpoint: 1,
  name: "Tensor overflow",
  condition: "tensor_overflow",
  step: 3,
  op: "Default/network-Net/fc-Linear/addmm-op0",
  io: "output",
  slot: 0,
};

test("a watchpoint named after its condition is named once, with the end of the op's name", () => {
  expect(hitText(HIT)).toBe("Tensor overflow at fc-Linear/addmm-op0");
});

test("a watchpoint with a name of its own is followed by its condition, whatever its name has", () => {
  expect(hitText({ ...HIT, name: "mine: at all", op: "fc.weight" })).toBe(
    "mine: at all: tensor_overflow at fc.weight",
  );
});

test("how a training ended comes from its exit code, its error or who ended it", () => {
  const ended = { exit_code: 0, error: "", is_terminated: false };
  expect(endText(ended)).toBe("ended with exit code 0");
  expect(endText({ ...ended, exit_code: 1, error: "ended badly" })).toBe("ended: ended badly");
  expect(endText({ ...ended, exit_code: 130, error: "x", is_terminated: true })).toBe(
    "terminated from the debugger",
  );
});
