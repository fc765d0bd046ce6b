/** A page without a server: sample runs, and the answers that panels get to their requests. */
import { cleanup } from "@testing-library/preact";
import { afterEach, beforeEach, vi } from "vitest";
import { closeDialog } from "../../src/panels/dialogs";
import { START } from "../../src/state/place";
import { clearTicks, go, setConnection, setRuns } from "../../src/state/store";
import { dismiss, toasts } from "../../src/state/toasts";
import type {
  DiagnosisView,
  GraphInfo,
  Hit,
  RankView,
  RunView,
  WatchpointSpec,
} from "../../src/wire";

export const GRAPH: GraphInfo = {
  id: 0,
  name: "Net",
  nodes: 9,
  whole: true,
  optimizer: "",
  basis: "run",
  steps: [],
  like: null,
  here: null,
  difference: "",
  is_compiled: false,
};

export const RANK: RankView = {
  rank: 0,
  state: "paused",
  step: 3,
  graph: 0,
  op: null,
  order: null,
  reason: "step",
  message: "",
  hits: 0,
  graphs: [GRAPH],
  steps: [],
  metadata: null,
  seconds: null,
  bare_seconds: null,
  exit_code: null,
  error: "",
  is_terminated: false,
  is_answering: true,
  hit: null,
  is_measuring: false,
  address: "127.0.0.1:41234",
  frames: [],
  failed: null,
  waits_for: [],
  kept: [],
  recorded: [],
  recording: null,
};

export const WATCHPOINT: WatchpointSpec = {
  id: 1,
  name: "Tensor overflow",
  conditions: [{ id: "tensor_overflow", parameters: {}, expression: "" }],
  ops: [],
  join: "any",
  enabled: true,
  break_after: 1,
  ranks: [],
};

export const RUN: RunView = {
  id: "r",
  title: "train.py",
  kind: "live",
  ranks: [RANK],
  controls: ["continue", "step", "next", "to", "terminate"],
  watchpoints: [],
  notices: [],
  recheck: null,
  revision: 0,
  peer: null,
  unobserved: [],
  warnings: [],
  headline: null,
  diagnosis: null,
  opens_with_health: false,
};

export const DIAGNOSIS: DiagnosisView = {
  steps: 45,
  is_over: false,
  findings: [
    {
      kind: "missing-zero-grad",
      detail: "",
      status: "established",
      message: "gradients are not cleared between steps",
      where: ["train.py:35", "fc.weight", "optimizer"],
      step: 1,
      evidence: [
        { name: "steps", value: "45" },
        { name: "steps with old gradients", value: "44" },
      ],
      explains: ["the loss is nan in step 12"],
      advice: "call optimizer.zero_grad() before the backward pass at train.py:34",
      lines: [
        { file: "/a/train.py", line: 35, function: "main", code: "optimizer.step()", library: "" },
      ],
    },
    {
      kind: "lr-too-high",
      detail: "",
      status: "supported",
      message: "the steps are larger than the weights",
      where: [],
      step: 6,
      evidence: [],
      explains: [],
      advice: "",
      lines: [],
    },
  ],
};

export function hit(number: number, more: Partial<Hit> = {}): Hit {
  return {
    number,
    watchpoint: 1,
    condition: "tensor_overflow",
    rank: 0,
    step: number,
    order: 1,
    op: "Default/net/log-op0",
    io: "output",
    slot: 0,
    type: { dtype: "float32", shape: [2, 3] },
    verdict: "hit",
    why: "",
    values: [],
    part: "other",
    origin: null,
    chain: [],
    source: null,
    count: 1,
    status: "supported",
    headline: null,
    advice: "",
    is_harmless: false,
    ...more,
  };
}

/** A request of the page to the server. */
export interface Sent {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
}

type Answer = (sent: Sent) => unknown;

/** The requests since the test began, in order. */
export let sent: Sent[] = [];
let answers: ReadonlyMap<string, Answer> = new Map();

/** An answer that refuses a request. */
export function refusal(error: string, slug: string): Response {
  return Response.json({ error, slug }, { status: 404 });
}

/** Answers requests by "METHOD path", the path without "api/v1". */
export function answer(routes: Readonly<Record<string, Answer>>): void {
  answers = new Map(Object.entries(routes));
}

async function fetchFromTest(input: string, init: RequestInit = {}): Promise<Response> {
  const url = new URL(input, "http://page.test/");
  const path = url.pathname.replace(/^\/api\/v1/, "");
  const text = typeof init.body === "string" ? init.body : "null";
  const request: Sent = {
    method: init.method ?? "GET",
    path,
    query: url.searchParams,
    body: JSON.parse(text) as unknown,
  };
  sent.push(request);
  const found = answers.get(`${request.method} ${path}`);
  await Promise.resolve();
  if (found === undefined) {
    return Response.json({ error: `no answer to ${path}`, slug: "test" }, { status: 404 });
  }
  const given = found(request) ?? null;
  return given instanceof Response ? given : Response.json(given);
}

/** The server knows only `run`, and the page shows it. */
export function show(run: RunView): void {
  setRuns([run]);
}

/** Clears the page before each test of a file. */
export function useEmptyPage(): void {
  beforeEach(() => {
    sent = [];
    answers = new Map();
    vi.stubGlobal("fetch", fetchFromTest);
    // The document of the tests has no layout: lists are 400 pixels high, their rows 40.
    vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(400);
    vi.spyOn(HTMLElement.prototype, "clientWidth", "get").mockReturnValue(400);
    vi.spyOn(HTMLElement.prototype, "offsetHeight", "get").mockReturnValue(40);
    setConnection("open");
    setRuns([]);
    go(START);
    clearTicks();
    closeDialog();
    for (const each of toasts.value) dismiss(each.id);
  });
  afterEach(() => {
    cleanup();
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });
}
