import { expect, test } from "vitest";
import type { GraphInfo } from "../src/wire";
import { graphOf } from "../src/state/graphs";
import { graphText } from "../src/text/names";

const graph = (id: number, whole: boolean, optimizer = ""): GraphInfo => ({
  id,
  name: "Net",
  nodes: 9,
  whole,
  optimizer,
  basis: "run",
  steps: [],
  like: null,
  here: null,
  difference: "",
  is_compiled: false,
});
const state = "paused" as const;

test("the graph on the screen is the one chosen, else the one that runs, else the last whole one", () => {
  const graphs = [graph(0, true), graph(1, true), graph(2, false)];
  expect(graphOf({ graphs, graph: 0, op: null, state }, 1)?.id).toBe(1);
  expect(graphOf({ graphs, graph: 0, op: "a", state }, null)?.id).toBe(0);
  expect(graphOf({ graphs, graph: null, op: null, state }, null)?.id).toBe(1);
  expect(graphOf({ graphs: [], graph: null, op: null, state }, null)).toBeNull();
});

test("in the middle of a step whose structure is new it is the one that grows", () => {
  expect(
    graphOf({ graphs: [graph(0, true), graph(1, false)], graph: null, op: "a", state }, null)?.id,
  ).toBe(1);
  expect(
    graphOf({ graphs: [graph(0, true), graph(1, false)], graph: null, op: "a", state }, 0)?.id,
  ).toBe(0);
});

test("two graphs that take turns do not flicker while the training runs; a new one is shown", () => {
  const graphs = [graph(0, true), graph(1, true), graph(2, true)];
  const running = { graphs, op: null, state: "running" as const };
  expect(graphOf({ ...running, graph: 1 }, null, 2)?.id).toBe(2);
  expect(graphOf({ ...running, graph: 2 }, null, 1)?.id).toBe(2);
  expect(graphOf({ ...running, graph: 1 }, 0, 2)?.id).toBe(0);
  expect(graphOf({ ...running, graph: 1, state }, null, 2)?.id).toBe(1);
  expect(graphOf({ ...running, graph: 1 }, null, 7)?.id).toBe(1);
});

test("a graph is named by its optimizer where there are several", () => {
  const several = [
    graph(0, true, "SGD of Critic"),
    graph(1, true, "Adam of Generator"),
    graph(2, false),
  ];
  expect(several.map((each) => graphText(each, several))).toEqual([
    "graph 0 · SGD of Critic · 9 nodes",
    "graph 1 · Adam of Generator · 9 nodes",
    "graph 2 · 9 nodes, still growing",
  ]);
  expect(graphText(graph(0, true, "Adam"), [graph(0, true, "Adam"), graph(1, true, "Adam")])).toBe(
    "graph 0 · 9 nodes",
  );
});

test("the only graph needs no name", () => {
  expect(graphText(graph(0, true), [graph(0, true)])).toBe("9 nodes");
});

test("a graph that has not run yet says what it is", () => {
  const expected = (basis: GraphInfo["basis"]): string =>
    graphText({ ...graph(0, false), basis }, []);
  expect(expected("modules")).toBe(
    "graph 0 · 9 nodes, modules and parameters: its ops have not run yet",
  );
  expect(expected("trace")).toBe("graph 0 · 9 nodes, as traced: its ops have not run yet");
  expect(expected("run")).toBe("graph 0 · 9 nodes, still growing");
});

test("a chosen step decides the graph, unless a graph is chosen", () => {
  const graphs = [
    { ...graph(0, true), steps: [[0, 0]] as const },
    {
      ...graph(1, true),
      steps: [
        [1, 4],
        [9, 9],
      ] as const,
    },
  ];
  const one = { graphs, graph: 1, op: null, state };
  expect(graphOf(one, null, null, 0)?.id).toBe(0);
  expect(graphOf(one, null, null, 9)?.id).toBe(1);
  expect(graphOf(one, null, null, 7)?.id).toBe(1);
  expect(graphOf(one, 0, null, 9)?.id).toBe(0);
});

test("in the middle of a step the known graph stays, if the server says that it is alike", () => {
  const known = graph(0, true);
  const growing = { ...graph(1, false), like: 0 };
  const paused = { graph: 1, op: "a", state };
  expect(graphOf({ ...paused, graphs: [known, growing] }, null)?.id).toBe(0);
  const atHit = { ...paused, reason: "hit" as const, graphs: [known, growing] };
  expect(graphOf(atHit, null)?.id).toBe(1);
  const other = { ...growing, like: null };
  expect(graphOf({ ...paused, graphs: [known, other] }, null)?.id).toBe(1);
  expect(graphOf({ ...paused, graphs: [known, growing] }, 1)?.id).toBe(1);
});

test("graphs are named by what differs from the usual one", () => {
  const several = [
    { ...graph(0, true), difference: "first step of AdamW" },
    { ...graph(1, true), nodes: 0 },
  ];
  expect(several.map((each) => graphText(each, several))).toEqual([
    "first step of AdamW · 9 nodes",
    "usual step",
  ]);
});
