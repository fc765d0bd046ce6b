import { describe, expect, test } from "vitest";
import { commonParts, differingPart } from "../src/text/differing";
import {
  drawnScopes,
  innerName,
  leafText,
  opName,
  phaseText,
  readParts,
  runTitle,
  type TitledRun,
} from "../src/text/names";

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

describe("names as people read them", () => {
  test("phases have their own names, and a gradient is told from its op", () => {
    expect(readParts("Default/network-GPT/")).toEqual(["Forward", "network-GPT"]);
    expect(readParts("Gradients/Default/fc/mm-op0")).toEqual(["Backward", "fc", "mm-op0"]);
    expect(readParts("recompute_Default/fc/")).toEqual(["Recomputed", "fc"]);
    expect(opName("Default/fc/div-op0")).toBe("div-op0");
    expect(opName("Gradients/Default/fc/div-op0")).toBe("div-op0 (grad)");
    expect([leafText("data-7"), leafText("Default_data-3")]).toEqual(["constant 7", "constant 3"]);
  });

  test("the scopes that contain everything are drawn only with everything", () => {
    const op = "Default/net/fc/mm-op0";
    expect(drawnScopes(op, "model")).toEqual(["Default/net/", "Default/net/fc/"]);
    expect(drawnScopes(op, "everything")).toEqual(["Default/", "Default/net/", "Default/net/fc/"]);
    expect(drawnScopes("Default/net/", "step")).toEqual([]);
  });

  test("results begin with the part in which they differ", () => {
    const scope = (block: number): string =>
      `Default/network-GPT/blocks-Sequential/${block}-Block/mlp-Sequential/1-GELU`;
    const all = [scope(0), scope(20), `Gradients/${scope(20)}`];
    const common = commonParts(all);
    expect(all.map((each) => differingPart(each, common))).toEqual([
      "0-Block › mlp › 1-GELU",
      "20-Block › mlp › 1-GELU",
      "20-Block › mlp › 1-GELU",
    ]);
    expect(differingPart(scope(3), commonParts([scope(3)]))).toBe(
      "network › blocks › 3-Block › mlp › 1-GELU",
    );
  });

  test("a dump in a folder that says nothing is named with the folder around it", () => {
    expect(runTitle([dump("a", "/x/lenet/dump")], "a")).toBe("lenet/dump");
  });
});

test("what an optimizer keeps between steps belongs to the optimizer", () => {
  const state = { kind: "parameter", phase: "forward", scope: "Default/optimizer-AdamW" } as const;
  expect(phaseText(state)).toBe("optimizer");
  expect(phaseText({ ...state, scope: `${state.scope}/` })).toBe("optimizer");
  expect(phaseText({ ...state, scope: "Default/network-Net/fc-Linear" })).toBe("forward");
  expect(phaseText({ ...state, scope: "Gradients/Default", phase: "backward" })).toBe("backward");
});

test("parameters of a module have different names in its list", () => {
  const names = ["blocks.2.ln.weight", "blocks.2.mlp.0.weight", "blocks.2.mlp.2.weight"];
  expect(names.map((each) => innerName(each, names))).toEqual([
    "ln.weight",
    "mlp.0.weight",
    "mlp.2.weight",
  ]);
  expect(innerName("fc.weight", ["fc.weight"])).toBe("fc.weight");
  expect(innerName("weight", ["weight", "bias"])).toBe("weight");
});
