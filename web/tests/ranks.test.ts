import { describe, expect, it } from "vitest";
import { checkText, rangesText, ranksText } from "../src/text/ranks";

describe("names of ranks", () => {
  it("joins consecutive numbers", () => {
    expect(rangesText([3, 0, 1, 7])).toBe("0–1, 3, 7");
    expect(ranksText([5])).toBe("rank 5");
    expect(ranksText([0, 1, 2])).toBe("ranks 0–2");
    expect(rangesText([])).toBe("");
  });
  it("says a kind in words", () => {
    expect(checkText("gradients-not-exchanged")).toBe("gradients not exchanged");
  });
});
