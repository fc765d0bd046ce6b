import type { BoxStatistic, GraphDetail, HitPhase } from "../wire";

export type { GraphDetail };

/**
 * Everything that determines what the page shows. The address contains it, so that a reload, or a
 * colleague with the link, shows the same.
 */
export type Tab = "health" | "compare" | "graph" | "tensor" | "loss" | "ranks" | "run";
export type Side = "hits" | "watchpoints" | "findings";
export type NodeListing = "ops" | "lines";
export type TensorMode = "table" | "heat" | "tiles" | "curve";
/** The part of a comparison that is shown; empty: the default. */
export type ComparedPart = "" | "both" | "difference" | "a" | "b";
export type PairList = "pairs" | "a" | "b";
export type PairSort = "order" | "error";
export type HitView = "causes" | "list";
export const HIT_PHASES: readonly HitPhase[] = ["forward", "backward", "optimizer", "weights"];
export type Io = "input" | "output";
/** What boxes are coloured by; empty: their phase. */
export type ColourBy = "" | BoxStatistic;

/**
 * What a tensor is compared with; every part that is null is the same as the tensor's own. An empty
 * `op`: another tensor, whose name the user has not given yet.
 */
export interface Against {
  readonly step: number | null;
  readonly op: string | null;
  readonly io: Io | null;
  readonly slot: number | null;
  readonly rank: number | null;
  readonly run: string | null;
}

export interface Place {
  readonly run: string;
  readonly rank: number | null;
  readonly graph: number | null;
  /** Empty: the first screen of the run. */
  readonly tab: Tab | "";
  readonly side: Side;
  readonly op: string;
  /** Scopes and groups open in the graph, and scopes open in the list. */
  readonly open: readonly string[];
  readonly tree: readonly string[];
  /** The user closed all scopes, so none is opened automatically. */
  readonly isClosed: boolean;
  readonly view: GraphDetail;
  readonly colourBy: ColourBy;
  readonly io: Io;
  readonly slot: number;
  readonly step: number | null;
  readonly index: string;
  readonly mode: TensorMode;
  /** Further tensors in the chart over steps, as `curveKey` writes them. */
  readonly curves: readonly string[];
  /** Other runs and ranks in the chart of the loss, as `run rank`. */
  readonly lossOf: readonly string[];
  /** The statistic of the map of layers (empty: the first), and the run it is compared with. */
  readonly layerStatistic: string;
  readonly layersWith: string;
  readonly against: Against | null;
  readonly compared: ComparedPart;
  /** The first row of a long plane's comparison. */
  readonly comparedRow: number;
  readonly tolerance: number;
  /** The line of the op's stack whose code is shown; -1: the innermost of own code. */
  readonly frame: number;
  readonly listing: NodeListing;
  readonly lineQuery: string;
  readonly query: string;
  readonly category: string;
  readonly phase: string;
  readonly file: string;
  readonly line: number | null;
  readonly onlyHits: boolean;
  readonly hitWatchpoint: number | null;
  readonly hitVerdict: string;
  readonly hitStep: number | null;
  readonly hitOp: boolean;
  readonly hitGraph: number | null;
  readonly hitPhase: HitPhase | "";
  readonly hitAllRanks: boolean;
  readonly hitView: HitView;
  /** Hits whose chain is unfolded, as `rank.number`. */
  readonly chains: readonly string[];
  readonly pairList: PairList;
  readonly pairQuery: string;
  readonly pairStatus: string;
  readonly pairSort: PairSort;
}

export const START: Place = {
  run: "",
  rank: null,
  graph: null,
  tab: "",
  side: "hits",
  op: "",
  open: [],
  tree: [],
  isClosed: false,
  view: "model",
  colourBy: "",
  io: "output",
  slot: 0,
  step: null,
  index: "",
  mode: "table",
  curves: [],
  lossOf: [],
  layerStatistic: "",
  layersWith: "",
  against: null,
  compared: "",
  comparedRow: 0,
  tolerance: 0,
  frame: -1,
  listing: "ops",
  lineQuery: "",
  query: "",
  category: "",
  phase: "",
  file: "",
  line: null,
  onlyHits: false,
  hitWatchpoint: null,
  hitVerdict: "",
  hitStep: null,
  hitOp: false,
  hitGraph: null,
  hitPhase: "",
  hitAllRanks: true,
  hitView: "causes",
  chains: [],
  pairList: "pairs",
  pairQuery: "",
  pairStatus: "",
  pairSort: "order",
};

/** The statistics that boxes can be coloured by, and their names. */
export const BOX_STATISTIC_NAMES: Readonly<Record<BoxStatistic, string>> = {
  l2norm: "norm",
  max: "largest |x|",
  zeros: "share of zeros",
  "non-finite": "NaN and Inf",
  distance: "distance to the other dump",
  time: "time in a profile",
};
export const BOX_STATISTICS = Object.keys(BOX_STATISTIC_NAMES) as readonly BoxStatistic[];

const TABS = ["health", "graph", "compare", "tensor", "loss", "ranks", "run"] as const;

function oneOf<T extends string>(text: string | null, choices: readonly T[], otherwise: T): T {
  return choices.find((choice) => choice === text) ?? otherwise;
}

function whole(text: string | null): number | null {
  return text !== null && /^-?\d+$/.test(text) ? Number(text) : null;
}

/** The place that an address names; invalid parts have their defaults. */
export function parsePlace(search: string): Place {
  const given = new URLSearchParams(search);
  const text = (name: string): string => given.get(name) ?? "";
  return {
    run: text("run"),
    rank: whole(given.get("rank")),
    graph: whole(given.get("graph")),
    tab: oneOf(given.get("tab"), ["", ...TABS], ""),
    side: oneOf(given.get("side"), ["hits", "watchpoints", "findings"], "hits"),
    op: text("op"),
    open: given.getAll("open"),
    tree: given.getAll("tree"),
    isClosed: given.get("closed") === "1",
    view: oneOf(given.get("view"), ["model", "step", "everything"], "model"),
    colourBy: oneOf(given.get("colour"), ["", ...BOX_STATISTICS], ""),
    io: oneOf(given.get("io"), ["output", "input"], "output"),
    slot: whole(given.get("slot")) ?? 0,
    step: whole(given.get("step")),
    index: text("index"),
    mode: oneOf(given.get("mode"), ["table", "heat", "tiles", "curve"], "table"),
    curves: given.getAll("curve"),
    lossOf: given.getAll("loss_of"),
    layerStatistic: text("layer_statistic"),
    layersWith: text("layers_with"),
    against: parseAgainst(given),
    compared: oneOf(given.get("compared"), ["", "both", "difference", "a", "b"], ""),
    comparedRow: Math.max(whole(given.get("compared_row")) ?? 0, 0),
    tolerance: Math.min(Math.max(Number(given.get("tolerance") ?? 0) || 0, 0), 1),
    frame: Math.max(whole(given.get("frame")) ?? -1, -1),
    listing: oneOf(given.get("listing"), ["ops", "lines"], "ops"),
    lineQuery: text("line_query"),
    query: text("query"),
    category: text("category"),
    phase: text("phase"),
    file: text("file"),
    line: whole(given.get("line")),
    onlyHits: given.get("only") === "hits",
    hitWatchpoint: whole(given.get("hit_watchpoint")),
    hitVerdict: text("hit_verdict"),
    hitStep: whole(given.get("hit_step")),
    hitOp: given.get("hit_op") === "1",
    hitGraph: whole(given.get("hit_graph")),
    hitPhase: oneOf(given.get("hit_phase"), ["", ...HIT_PHASES], ""),
    hitAllRanks: given.get("hit_rank") !== "one",
    hitView: oneOf(given.get("hit_view"), ["causes", "list"], "causes"),
    chains: given.getAll("chain"),
    pairList: oneOf(given.get("pair_list"), ["pairs", "a", "b"], "pairs"),
    pairQuery: text("pair_query"),
    pairStatus: text("pair_status"),
    pairSort: oneOf(given.get("pair_sort"), ["order", "error"], "order"),
  };
}

function parseAgainst(given: URLSearchParams): Against | null {
  if (given.get("compare") === null) return null;
  const io = given.get("with_io");
  return {
    step: whole(given.get("with_step")),
    op: given.get("with_op"),
    io: io === "input" || io === "output" ? io : null,
    slot: whole(given.get("with_slot")),
    rank: whole(given.get("with_rank")),
    run: given.get("with_run"),
  };
}

/** The inverse of `parsePlace`; parts that have their defaults are omitted. */
export function formatPlace(place: Place): string {
  const out = new URLSearchParams();
  const put = (
    name: string,
    value: string | number | null,
    start: string | number | null,
  ): void => {
    if (value !== start && value !== null) out.append(name, String(value));
  };
  put("run", place.run, START.run);
  put("rank", place.rank, START.rank);
  put("graph", place.graph, START.graph);
  put("tab", place.tab, START.tab);
  put("side", place.side, START.side);
  put("op", place.op, START.op);
  for (const scope of place.open) out.append("open", scope);
  for (const scope of place.tree) out.append("tree", scope);
  if (place.isClosed) out.append("closed", "1");
  put("view", place.view, START.view);
  put("colour", place.colourBy, START.colourBy);
  put("io", place.io, START.io);
  put("slot", place.slot, START.slot);
  put("step", place.step, START.step);
  put("index", place.index, START.index);
  put("mode", place.mode, START.mode);
  for (const curve of place.curves) out.append("curve", curve);
  for (const other of place.lossOf) out.append("loss_of", other);
  put("layer_statistic", place.layerStatistic, START.layerStatistic);
  put("layers_with", place.layersWith, START.layersWith);
  if (place.against !== null) {
    out.append("compare", "1");
    put("with_step", place.against.step, null);
    put("with_op", place.against.op, null);
    put("with_io", place.against.io, null);
    put("with_slot", place.against.slot, null);
    put("with_rank", place.against.rank, null);
    put("with_run", place.against.run, null);
  }
  put("compared", place.compared, START.compared);
  put("compared_row", place.comparedRow, START.comparedRow);
  put("tolerance", place.tolerance, START.tolerance);
  put("frame", place.frame, START.frame);
  put("listing", place.listing, START.listing);
  put("line_query", place.lineQuery, START.lineQuery);
  put("query", place.query, START.query);
  put("category", place.category, START.category);
  put("phase", place.phase, START.phase);
  put("file", place.file, START.file);
  put("line", place.line, START.line);
  if (place.onlyHits) out.append("only", "hits");
  put("hit_watchpoint", place.hitWatchpoint, START.hitWatchpoint);
  put("hit_verdict", place.hitVerdict, START.hitVerdict);
  put("hit_step", place.hitStep, START.hitStep);
  if (place.hitOp) out.append("hit_op", "1");
  put("hit_graph", place.hitGraph, START.hitGraph);
  put("hit_phase", place.hitPhase, START.hitPhase);
  if (!place.hitAllRanks) out.append("hit_rank", "one");
  put("hit_view", place.hitView, START.hitView);
  for (const chain of place.chains) out.append("chain", chain);
  put("pair_list", place.pairList, START.pairList);
  put("pair_query", place.pairQuery, START.pairQuery);
  put("pair_status", place.pairStatus, START.pairStatus);
  put("pair_sort", place.pairSort, START.pairSort);
  // A slash needs no escape in a query, and names of ops contain many.
  const text = out.toString().replaceAll("%2F", "/");
  return text === "" ? "" : `?${text}`;
}

/** Whether a change of the place gets an entry in the browser's history. */
export function isNewPage(before: Place, after: Place): boolean {
  return (
    before.run !== after.run ||
    before.rank !== after.rank ||
    before.tab !== after.tab ||
    before.op !== after.op ||
    before.io !== after.io ||
    before.slot !== after.slot
  );
}
