import { describe, expect, test } from "vitest";
import { runTitle, type TitledRun } from "../src/text/names";

const dump = (id: string, title: string): TitledRun => ({ id, kind: "dump", title });

describe("how lists name runs", () => {
  test("a dump is its folder", () => {
    expect(runTitle([dump("a", "/x/run_a"), dump("b", "/x/run_b")], "a")).toBe("run_a");
  });

  test("dumps in folders of one name are told apart by what is round them", () => {
    const runs = [dump("a", "/x/good/dump"), dump("b", "/x/bad/dump/"), dump("c", "/y/bad/dump")];
    expect(runs.map((each) => runTitle(runs, each.id))).toEqual([
      "good/dump",
      "x/bad/dump",
      "y/bad/dump",
    ]);
  });

  test("trainings of one name are told apart by when they began, or by their ids", () => {
    const training = (id: string, started: number): TitledRun => ({
      id,
      kind: "live",
      title: "train.py",
      ranks: [{ metadata: { started } }],
    });
    const [early, late] = [training("a", 1e9), training("b", 1e9 + 60)];
    expect(runTitle([early], "a")).toBe("train.py");
    expect(runTitle([early, late], "a")).toMatch(/^train\.py · \d+:46:40/);
    expect(runTitle([early, late], "b")).toMatch(/^train\.py · \d+:47:40/);
    expect(runTitle([early, training("c", 0)], "c")).toBe("train.py · c");
  });

  test("one dump opened twice has its whole path", () => {
    expect(runTitle([dump("a", "/x/d"), dump("b", "/x/d")], "a")).toBe("/x/d");
  });
});
