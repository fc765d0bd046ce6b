import { expect, test } from "vitest";
import { groupScope, isAmong, scopesOf, shortName } from "../src/text/names";
import {
  BOX_STATISTICS,
  formatPlace,
  isNewPage,
  parsePlace,
  START,
  type Place,
} from "../src/state/place";

const FULL: Place = {
  run: "a run/1",
  rank: 3,
  graph: 2,
  tab: "tensor",
  side: "watchpoints",
  op: "Default/network-Net/0-Linear/addmm-op1",
  open: ["Default/", "Default/*0-Block/"],
  tree: ["Default/"],
  isClosed: true,
  view: "step",
  colourBy: "l2norm",
  io: "input",
  slot: 2,
  step: 0,
  index: "[0, :, 3:5]",
  mode: "heat",
  curves: ["0 output 0 r Default/a b"],
  lossOf: ["1 r"],
  layerStatistic: "grad_norm",
  layersWith: "b",
  against: { step: 4, op: "other & one", io: "output", slot: 1, rank: 1, run: "b" },
  compared: "both",
  comparedRow: 300,
  tolerance: 0.25,
  frame: 2,
  listing: "lines",
  lineQuery: "self.fc(x)",
  query: "soft max",
  category: "weight",
  phase: "backward",
  file: "/home/me/train.py",
  line: 30,
  onlyHits: true,
  hitWatchpoint: 7,
  hitVerdict: "hit",
  hitStep: 12,
  hitOp: true,
  hitGraph: 1,
  hitPhase: "optimizer",
  hitAllRanks: false,
  hitView: "list",
  chains: ["0.17", "1.3"],
  pairList: "b",
  pairQuery: "conv 1",
  pairStatus: "not dumped",
  pairSort: "error",
};

test("an address holds the whole place", () => {
  expect(parsePlace(formatPlace(FULL))).toEqual(FULL);
  expect(formatPlace(START)).toBe("");
  expect(parsePlace("")).toEqual(START);
});

test.each(BOX_STATISTICS)("an address holds that boxes are coloured by %s", (colourBy) => {
  expect(parsePlace(formatPlace({ ...START, colourBy })).colourBy).toBe(colourBy);
});

test("an address is short enough to be read, and a tensor without a name yet is in it", () => {
  const place = {
    ...START,
    op: "Default/a/b-op0",
    against: { step: null, op: "", io: null, slot: null, rank: null, run: null },
  };
  expect(formatPlace(place)).toBe("?op=Default/a/b-op0&compare=1&with_op=");
  expect(parsePlace(formatPlace(place))).toEqual(place);
});

test("nonsense in an address is as at the start", () => {
  expect(
    parsePlace(
      "?tab=x&rank=one&slot=&tolerance=9&mode=3d&line=1.5&frame=-1&compared=x&compared_row=-5&listing=y",
    ),
  ).toEqual({ ...START, tolerance: 1 });
});

test("another op is another page of the history, another fold is not", () => {
  expect(isNewPage(START, { ...START, op: "a" })).toBe(true);
  expect(isNewPage(START, { ...START, open: ["a/"] })).toBe(false);
});

test("names tell scopes and groups", () => {
  expect(scopesOf("Default/a/b-op0")).toEqual(["Default/", "Default/a/"]);
  expect(shortName("Default/a/b-op0")).toBe("a/b-op0");
  expect(groupScope("Default/a/*view-op0")).toBe("Default/a/");
  expect(groupScope("Default/a/")).toBeNull();
  expect(isAmong(["Default/3-Block/"], "Default/3-Block/mm-op0")).toBe(true);
});
