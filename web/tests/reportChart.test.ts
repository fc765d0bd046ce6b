// @vitest-environment happy-dom
import { expect, test } from "vitest";
import { legendText, nearestPoint } from "../report/Chart";

const LINE = { x: [0, 1, 2], y: [1.5, 0.8, null], color: "--text", gap: () => "nan" };

test("the legend of a report says that a value is not finite, not the value of the step before", () => {
  expect(nearestPoint([1.5, 0.8, null], 2)).toBe(2);
  expect(legendText(LINE, null, 2)).toBe("nan");
  expect(legendText(LINE, 0.8, 1)).toBe("0.8");
});

test("between the points of a line the legend shows the nearest of them", () => {
  expect(nearestPoint([1, undefined, undefined, 2], 2)).toBe(3);
  expect(nearestPoint([1, undefined, undefined, 2], 1)).toBe(0);
  expect(legendText({ ...LINE, gap: undefined } as never, null, undefined)).toBe("–");
});
