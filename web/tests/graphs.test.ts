import { expect, test } from "vitest";
import { graphOf } from "../src/state/graphs";

const graph = (id: number, whole: boolean) => ({ id, name: "Net", nodes: 9, whole });

test("the graph on the screen is the one chosen, else the one that runs, else the last whole one", () => {
  const graphs = [graph(0, true), graph(1, true), graph(2, false)];
  expect(graphOf({ graphs, graph: 0, op: null }, 1)?.id).toBe(1);
  expect(graphOf({ graphs, graph: 0, op: "a" }, null)?.id).toBe(0);
  expect(graphOf({ graphs, graph: null, op: null }, null)?.id).toBe(1);
  expect(graphOf({ graphs: [], graph: null, op: null }, null)).toBeNull();
});

test("in the middle of a step whose structure is new it is the one that grows", () => {
  expect(graphOf({ graphs: [graph(0, true), graph(1, false)], graph: null, op: "a" }, null)?.id).toBe(1);
  expect(graphOf({ graphs: [graph(0, true), graph(1, false)], graph: null, op: "a" }, 0)?.id).toBe(0);
});
