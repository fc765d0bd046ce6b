import { describe, expect, test } from "vitest";
import { runTitle } from "../src/state/names";

const dump = (id: string, title: string) => ({ id, kind: "dump", title });

describe("how lists name runs", () => {
  test("a dump is its folder", () => {
    expect(runTitle([dump("a", "/x/run_a"), dump("b", "/x/run_b")], "a")).toBe("run_a");
  });

  test("dumps in folders of one name are told apart by what is round them", () => {
    const runs = [dump("a", "/x/good/dump"), dump("b", "/x/bad/dump/"), dump("c", "/y/bad/dump")];
    expect(runs.map((each) => runTitle(runs, each.id))).toEqual(["good/dump", "x/bad/dump", "y/bad/dump"]);
  });

  test("one dump opened twice has its whole path", () => {
    expect(runTitle([dump("a", "/x/d"), dump("b", "/x/d")], "a")).toBe("/x/d");
  });
});
