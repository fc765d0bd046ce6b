import type {
  BoxStatistic,
  Catalogue,
  CauseList,
  CodeText,
  Compared,
  ComparisonView,
  ControlRequest,
  FindingPlaces,
  HealthView,
  Heat,
  HitPage,
  LayerCells,
  LayerTensors,
  Level,
  LevelMarks,
  LevelValues,
  LossCurve,
  MergeKind,
  NodePage,
  Opening,
  OpTensors,
  OpView,
  PairPage,
  Preview,
  Problem,
  RanksView,
  RecordRequest,
  RulePage,
  RunList,
  RunView,
  ScopeList,
  ScopeView,
  SignalCurve,
  SourceList,
  StatisticCurve,
  Summary,
  SummaryLogs,
  Table,
  TagHistograms,
  TagPicture,
  TensorOfRanks,
  TreePage,
  UnpairedPage,
  WatchpointAnswer,
  WatchpointDraft,
} from "../wire";
import type { Against, GraphDetail, Io } from "../state/place";
import type { CellBy } from "../state/preferences";

/** The server's routes (`docs/wire.md`); no other module knows them. */
export const BASE = "api/v1";

type Value = string | number | boolean | null | undefined;
type Query = Readonly<Record<string, Value>>;

/** The server answered with an error, or did not answer at all (`status` 0). */
export class ApiError extends Error {
  readonly slug: string;
  readonly status: number;

  constructor(message: string, slug: string, status: number) {
    super(message);
    this.slug = slug;
    this.status = status;
  }
}

export function address(path: string, query: Query = {}): string {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") given.set(name, String(value));
  }
  const text = given.toString();
  return `${BASE}${path}${text === "" ? "" : `?${text}`}`;
}

function isProblem(body: unknown): body is Problem {
  return (
    typeof body === "object" && body !== null && "error" in body && typeof body.error === "string"
  );
}

async function send(url: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is it still running?", "", 0);
  }
  if (answer.ok) return answer;
  // Another server, with another token, listens here now: its form asks for it.
  if (answer.status === 401) location.reload();
  const body: unknown = await answer.json().catch(() => null);
  if (isProblem(body)) throw new ApiError(body.error, body.slug, answer.status);
  throw new ApiError(
    `The server answered ${answer.status} ${answer.statusText}`,
    "",
    answer.status,
  );
}

async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const answer = await send(address(path, query), signal === undefined ? {} : { signal });
  return (await answer.json()) as T;
}

async function change<T>(
  method: "POST" | "PUT" | "DELETE",
  path: string,
  body?: unknown,
  query: Query = {},
): Promise<T> {
  const init: RequestInit = { method };
  if (method !== "DELETE") {
    init.body = JSON.stringify(body ?? {});
    init.headers = { "content-type": "application/json" };
  }
  const answer = await send(address(path, query), init);
  const text = await answer.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

const runPath = (run: string): string => `/runs/${encodeURIComponent(run)}`;

/** A page of a long list. */
interface Page {
  readonly offset: number;
  readonly limit: number;
}

export interface RankAt {
  readonly run: string;
  readonly rank: number;
}

export interface GraphAt extends RankAt {
  readonly graph: number;
}

/** A graph, with as many nodes as the view shows. */
export interface ShownGraphAt extends GraphAt {
  readonly view: GraphDetail;
}

export interface LevelAt extends ShownGraphAt {
  readonly scope: string;
  readonly group: string;
}

export interface TensorAt extends RankAt {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly step: number | null;
}

export interface NodeFilter {
  readonly query: string;
  readonly category: string;
  readonly phase: string;
  readonly file: string;
  readonly line: number | null;
  readonly hits: boolean;
}

export interface PairFilter {
  readonly query: string;
  readonly status: string;
  readonly sort: string;
}

export interface HitFilter {
  readonly origin?: string;
  readonly condition?: string;
  readonly phase?: string;
  readonly rank: number | null;
  readonly watchpoint: number | null;
  readonly graph: number | null;
  readonly step: number | null;
  readonly op: string;
  readonly verdict: string;
}

interface CausesRequest {
  readonly run: string;
  readonly rank: number | null;
}

interface OpRequest extends RankAt {
  /** Null: whichever graph of the rank has the op. */
  readonly graph: number | null;
  readonly view: GraphDetail;
  readonly name: string;
}

interface CodeRequest extends RankAt {
  readonly file: string;
  readonly line: number;
  readonly around: number;
}

interface HeatRequest extends TensorAt {
  readonly index: string;
  readonly rows: number;
  readonly columns: number;
  readonly by: CellBy;
}

interface CompareRequest extends TensorAt {
  readonly against: Against;
  readonly index: string;
  readonly tolerance: number;
}

interface RankTensorRequest extends Omit<TensorAt, "rank"> {
  /** How ranks are put together; empty: as the placement of the tensor says. */
  readonly merge: MergeKind | "";
  readonly dim: number;
}

/** A tag of the event files in a directory. */
export interface TagRequest {
  readonly log: number;
  readonly tag: string;
}

/** A part of the map of layers by steps, and how many cells of it are shown. */
export interface LayersRequest extends RankAt {
  readonly statistic: string;
  readonly first: number | null;
  readonly last: number | null;
  readonly top: number;
  readonly bottom: number | null;
  readonly rows: number;
  readonly columns: number;
  readonly with_run: string | null;
}

interface LayerCellRequest extends RankAt {
  readonly statistic: string;
  readonly layer: string;
  readonly first: number;
  readonly last: number;
}

function againstQuery(against: Against): Query {
  return {
    with_step: against.step,
    with_op: against.op,
    with_io: against.io,
    with_slot: against.slot,
    with_rank: against.rank,
    with_run: against.run,
  };
}

export const api = {
  runs: (signal?: AbortSignal) => get<RunList>("/runs", {}, signal),
  run: (run: string, signal?: AbortSignal) => get<RunView>(runPath(run), {}, signal),
  forget: (run: string) => change<null>("DELETE", runPath(run)),
  control: (run: string, request: ControlRequest) =>
    change<RunView>("POST", `${runPath(run)}/control`, request),
  opening: ({ run, ...query }: ShownGraphAt & { readonly boxes: number }, signal?: AbortSignal) =>
    get<Opening>(`${runPath(run)}/graph/opening`, query, signal),
  findingPlaces: ({ run, ...query }: ShownGraphAt, signal?: AbortSignal) =>
    get<FindingPlaces>(`${runPath(run)}/graph/findings`, query, signal),
  rule: (kind: string, signal?: AbortSignal) => get<RulePage>("/rule", { kind }, signal),
  level: ({ run, ...query }: LevelAt, signal?: AbortSignal) =>
    get<Level>(`${runPath(run)}/graph/level`, query, signal),
  scope: ({ run, ...query }: ShownGraphAt & { readonly scope: string }, signal?: AbortSignal) =>
    get<ScopeView>(`${runPath(run)}/graph/scope`, query, signal),
  scopes: (
    { run, ...query }: ShownGraphAt & { readonly query: string; readonly limit: number },
    signal?: AbortSignal,
  ) => get<ScopeList>(`${runPath(run)}/graph/scopes`, query, signal),
  levelValues: (
    { run, ...query }: LevelAt & { readonly statistic: BoxStatistic; readonly step: number | null },
    signal?: AbortSignal,
  ) => get<LevelValues>(`${runPath(run)}/graph/values`, query, signal),
  tree: (
    { run, ...query }: ShownGraphAt & Page & { readonly scope: string },
    signal?: AbortSignal,
  ) => get<TreePage>(`${runPath(run)}/graph/tree`, query, signal),
  nodes: ({ run, hits, ...query }: GraphAt & NodeFilter & Page, signal?: AbortSignal) =>
    get<NodePage>(`${runPath(run)}/nodes`, { ...query, hits: hits ? true : null }, signal),
  op: ({ run, ...query }: OpRequest, signal?: AbortSignal) =>
    get<OpView>(`${runPath(run)}/op`, query, signal),
  opTensors: (
    { run, ...query }: RankAt & { readonly name: string; readonly step: number | null },
    signal?: AbortSignal,
  ) => get<OpTensors>(`${runPath(run)}/op/tensors`, query, signal),
  sources: ({ run, ...query }: GraphAt & { readonly query: string }, signal?: AbortSignal) =>
    get<SourceList>(`${runPath(run)}/sources`, query, signal),
  code: ({ run, ...query }: CodeRequest, signal?: AbortSignal) =>
    get<CodeText>(`${runPath(run)}/code`, query, signal),
  summary: ({ run, ...query }: TensorAt & { readonly index?: string }, signal?: AbortSignal) =>
    get<Summary>(`${runPath(run)}/tensor/summary`, query, signal),
  table: ({ run, ...query }: TensorAt & { readonly index: string }, signal?: AbortSignal) =>
    get<Table>(`${runPath(run)}/tensor/table`, query, signal),
  heat: ({ run, ...query }: HeatRequest, signal?: AbortSignal) =>
    get<Heat>(`${runPath(run)}/tensor/heat`, query, signal),
  compare: ({ run, against, ...query }: CompareRequest, signal?: AbortSignal) =>
    get<Compared>(`${runPath(run)}/tensor/compare`, { ...query, ...againstQuery(against) }, signal),
  fileAddress: ({ run, ...query }: TensorAt) => address(`${runPath(run)}/tensor/file`, query),
  curve: ({ run, ...query }: Omit<TensorAt, "step">, signal?: AbortSignal) =>
    get<StatisticCurve>(`${runPath(run)}/tensor/curve`, query, signal),
  ranks: (run: string, signal?: AbortSignal) => get<RanksView>(`${runPath(run)}/ranks`, {}, signal),
  rankTensor: ({ run, dim, ...query }: RankTensorRequest, signal?: AbortSignal) =>
    get<TensorOfRanks>(
      `${runPath(run)}/ranks/tensor`,
      { ...query, dim: query.merge === "concatenate" ? dim : null },
      signal,
    ),
  keep: (run: string, ops: readonly string[], steps: number) =>
    change<null>("POST", `${runPath(run)}/keep`, { ops, steps }),
  record: (run: string, request: RecordRequest) =>
    change<null>("POST", `${runPath(run)}/record`, request),
  preview: (run: string, rank: number, draft: WatchpointDraft) =>
    change<Preview>("POST", `${runPath(run)}/watchpoints/preview`, draft, { rank }),
  measureSpeed: (run: string) => change<RunView>("POST", `${runPath(run)}/measure-speed`),
  conditions: (signal?: AbortSignal) => get<Catalogue>("/conditions", {}, signal),
  addWatchpoint: (run: string, draft: WatchpointDraft) =>
    change<WatchpointAnswer>("POST", `${runPath(run)}/watchpoints`, draft),
  editWatchpoint: (run: string, id: number, draft: WatchpointDraft) =>
    change<WatchpointAnswer>("PUT", `${runPath(run)}/watchpoints/${id}`, draft),
  removeWatchpoint: (run: string, id: number) =>
    change<null>("DELETE", `${runPath(run)}/watchpoints/${id}`),
  /** Adds the watchpoints of a preset that fit the network. */
  recommend: (run: string, preset = "recommended") =>
    change<unknown>("POST", `${runPath(run)}/watchpoints/recommended`, {}, { preset }),
  watchpointFileAddress: (run: string) => address(`${runPath(run)}/watchpoints/file`),
  loadWatchpointFile: (run: string, content: unknown) =>
    change<unknown>("PUT", `${runPath(run)}/watchpoints/file`, content),
  recheck: (run: string) => change<RunView>("POST", `${runPath(run)}/recheck`),
  hits: ({ run, ...query }: HitFilter & Page & { readonly run: string }, signal?: AbortSignal) =>
    get<HitPage>(`${runPath(run)}/hits`, query, signal),
  causes: ({ run, ...query }: CausesRequest, signal?: AbortSignal) =>
    get<CauseList>(`${runPath(run)}/causes`, query, signal),
  stopCheck: (run: string) => change<null>("DELETE", `${runPath(run)}/recheck`),
  comparison: (run: string, signal?: AbortSignal) =>
    get<ComparisonView>(`${runPath(run)}/comparison`, {}, signal),
  pairs: ({ run, ...query }: PairFilter & Page & { readonly run: string }, signal?: AbortSignal) =>
    get<PairPage>(`${runPath(run)}/comparison/pairs`, query, signal),
  unpaired: (
    { run, ...query }: Page & { readonly run: string; readonly side: "a" | "b" },
    signal?: AbortSignal,
  ) => get<UnpairedPage>(`${runPath(run)}/comparison/unpaired`, query, signal),
  pairMarks: ({ run, ...query }: LevelAt, signal?: AbortSignal) =>
    get<LevelMarks>(`${runPath(run)}/comparison/marks`, query, signal),
  health: ({ run, ...query }: RankAt & { readonly points: number }, signal?: AbortSignal) =>
    get<HealthView>(`${runPath(run)}/health`, query, signal),
  logs: (_request: object, signal?: AbortSignal) => get<SummaryLogs>("/logs", {}, signal),
  logScalar: ({ log, ...query }: TagRequest, signal?: AbortSignal) =>
    get<SignalCurve>(`/logs/${log}/scalar`, query, signal),
  logHistograms: ({ log, ...query }: TagRequest, signal?: AbortSignal) =>
    get<TagHistograms>(`/logs/${log}/histograms`, query, signal),
  logPicture: (
    { log, ...query }: TagRequest & { readonly at: number | null },
    signal?: AbortSignal,
  ) => get<TagPicture>(`/logs/${log}/picture`, query, signal),
  layers: ({ run, ...query }: LayersRequest, signal?: AbortSignal) =>
    get<LayerCells>(`${runPath(run)}/layers`, query, signal),
  layerTensors: ({ run, ...query }: LayerCellRequest, signal?: AbortSignal) =>
    get<LayerTensors>(`${runPath(run)}/layers/tensors`, query, signal),
  loss: ({ run, ...query }: RankAt & { readonly after: number | null }, signal?: AbortSignal) =>
    get<LossCurve>(`${runPath(run)}/loss`, query, signal),
};
