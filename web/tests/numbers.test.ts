import { describe, expect, test } from "vitest";
import { brief, formatNumber, mark, seconds, toNumber, typeText } from "../src/text/numbers";

describe("numbers of the wire", () => {
  test("texts stand for what JSON lacks", () => {
    expect(toNumber("nan")).toBeNaN();
    expect(toNumber("-inf")).toBe(Number.NEGATIVE_INFINITY);
    expect(toNumber("9007199254740993")).toBe(9007199254740992);
    expect(["nan", "inf", "-inf", "12", 3].map(mark)).toEqual([
      "nan",
      "inf",
      "-inf",
      "finite",
      "finite",
    ]);
  });

  test.each([
    [0, "0"],
    [-0.5, "−0.5"],
    [1234567, "1234567"],
    [0.00001234567, "1.235e-5"],
    [98765432.1, "9.877e7"],
    [0.1234567, "0.1235"],
    [100.04, "100"],
    ["nan", "nan"],
    ["inf", "+inf"],
    ["-inf", "−inf"],
    [null, ""],
  ] as const)("%s is briefly %s", (value, text) => {
    expect(brief(value)).toBe(text);
  });

  test("fixed and scientific have the digits asked for", () => {
    expect(formatNumber(3.14159, { notation: "fixed", digits: 2 })).toBe("3.14");
    expect(formatNumber(-31415.9, { notation: "scientific", digits: 3 })).toBe("−3.142e+4");
    expect(formatNumber("18446744073709551615", { notation: "fixed", digits: 2 })).toBe(
      "18446744073709551615",
    );
  });

  test("units follow the size", () => {
    expect([0.0000021, 0.0123, 2, null].map(seconds)).toEqual(["2.1 µs", "12.3 ms", "2 s", "–"]);
    expect(typeText({ dtype: "float32", shape: [8, 128] })).toBe("float32[8,128]");
  });
});
