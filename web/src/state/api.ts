import type {
  Catalogue,
  CodeText,
  Compared,
  ComparisonView,
  ControlRequest,
  Heat,
  HitPage,
  Level,
  LevelMarks,
  LossCurve,
  NodePage,
  Opening,
  OpTensors,
  OpView,
  PairPage,
  Problem,
  RunList,
  RunView,
  SourceList,
  StatisticCurve,
  Summary,
  Table,
  TreePage,
  UnpairedPage,
  WatchpointDraft,
  WatchpointAnswer,
} from "../wire";
import type { Against, Io } from "./place";

/** The one place that knows the server's routes (`docs/wire.md`). */
export const BASE = "api/v1";

type Value = string | number | boolean | null | undefined;
type Query = Readonly<Record<string, Value>>;

/** An answer that is not 2xx, or none at all (`status` 0). */
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
  return typeof body === "object" && body !== null && "error" in body && typeof body.error === "string";
}

async function send(url: string, init: RequestInit): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(url, init);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer; is it still running?", "", 0);
  }
  if (answer.ok) return answer;
  const body: unknown = await answer.json().catch(() => null);
  if (isProblem(body)) throw new ApiError(body.error, body.slug, answer.status);
  throw new ApiError(`The server answered ${answer.status} ${answer.statusText}`, "", answer.status);
}

async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const answer = await send(address(path, query), signal === undefined ? {} : { signal });
  return (await answer.json()) as T;
}

async function change<T>(method: "POST" | "PUT" | "DELETE", path: string, body?: unknown): Promise<T> {
  const init: RequestInit = { method };
  if (method !== "DELETE") {
    init.body = JSON.stringify(body ?? {});
    init.headers = { "content-type": "application/json" };
  }
  const answer = await send(address(path), init);
  const text = await answer.text();
  return (text === "" ? null : JSON.parse(text)) as T;
}

const runPath = (run: string): string => `/runs/${encodeURIComponent(run)}`;

export interface TensorAt {
  readonly rank: number;
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
  readonly rank: number | null;
  readonly watchpoint: number | null;
  readonly graph: number | null;
  readonly step: number | null;
  readonly op: string;
  readonly verdict: string;
}

function tensorQuery(at: TensorAt): Query {
  return { rank: at.rank, op: at.op, io: at.io, slot: at.slot, step: at.step };
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
  control: (run: string, request: ControlRequest) => change<RunView>("POST", `${runPath(run)}/control`, request),
  opening: (run: string, rank: number, graph: number, boxes: number, signal?: AbortSignal) =>
    get<Opening>(`${runPath(run)}/graph/opening`, { rank, graph, boxes }, signal),
  level: (run: string, rank: number, graph: number, scope: string, group: string, signal?: AbortSignal) =>
    get<Level>(`${runPath(run)}/graph/level`, { rank, graph, scope, group }, signal),
  tree: (run: string, rank: number, graph: number, scope: string, offset: number, limit: number, signal?: AbortSignal) =>
    get<TreePage>(`${runPath(run)}/graph/tree`, { rank, graph, scope, offset, limit }, signal),
  nodes: (
    run: string,
    rank: number,
    graph: number,
    filter: NodeFilter,
    offset: number,
    limit: number,
    signal?: AbortSignal,
  ) =>
    get<NodePage>(
      `${runPath(run)}/nodes`,
      { ...filter, hits: filter.hits ? true : null, rank, graph, offset, limit },
      signal,
    ),
  op: (run: string, rank: number, graph: number | null, name: string, signal?: AbortSignal) =>
    get<OpView>(`${runPath(run)}/op`, { rank, graph, name }, signal),
  opTensors: (run: string, rank: number, name: string, step: number | null, signal?: AbortSignal) =>
    get<OpTensors>(`${runPath(run)}/op/tensors`, { rank, name, step }, signal),
  sources: (run: string, rank: number, graph: number, query: string, signal?: AbortSignal) =>
    get<SourceList>(`${runPath(run)}/sources`, { rank, graph, query }, signal),
  code: (run: string, rank: number, file: string, line: number, around: number, signal?: AbortSignal) =>
    get<CodeText>(`${runPath(run)}/code`, { rank, file, line, around }, signal),
  summary: (run: string, at: TensorAt, signal?: AbortSignal) =>
    get<Summary>(`${runPath(run)}/tensor/summary`, tensorQuery(at), signal),
  table: (run: string, at: TensorAt, index: string, signal?: AbortSignal) =>
    get<Table>(`${runPath(run)}/tensor/table`, { ...tensorQuery(at), index }, signal),
  heat: (run: string, at: TensorAt, index: string, rows: number, columns: number, signal?: AbortSignal) =>
    get<Heat>(`${runPath(run)}/tensor/heat`, { ...tensorQuery(at), index, rows, columns }, signal),
  compare: (run: string, at: TensorAt, against: Against, index: string, tolerance: number, signal?: AbortSignal) =>
    get<Compared>(
      `${runPath(run)}/tensor/compare`,
      { ...tensorQuery(at), ...againstQuery(against), index, tolerance },
      signal,
    ),
  fileAddress: (run: string, at: TensorAt) => address(`${runPath(run)}/tensor/file`, tensorQuery(at)),
  curve: (run: string, at: TensorAt, signal?: AbortSignal) =>
    get<StatisticCurve>(`${runPath(run)}/tensor/curve`, { ...tensorQuery(at), step: null }, signal),
  keep: (run: string, ops: readonly string[], steps: number) => change<null>("POST", `${runPath(run)}/keep`, { ops, steps }),
  conditions: (signal?: AbortSignal) => get<Catalogue>("/conditions", {}, signal),
  addWatchpoint: (run: string, draft: WatchpointDraft) =>
    change<WatchpointAnswer>("POST", `${runPath(run)}/watchpoints`, draft),
  editWatchpoint: (run: string, id: number, draft: WatchpointDraft) =>
    change<WatchpointAnswer>("PUT", `${runPath(run)}/watchpoints/${id}`, draft),
  removeWatchpoint: (run: string, id: number) => change<null>("DELETE", `${runPath(run)}/watchpoints/${id}`),
  recommend: (run: string) => change<unknown>("POST", `${runPath(run)}/watchpoints/recommended`),
  watchpointFileAddress: (run: string) => address(`${runPath(run)}/watchpoints/file`),
  loadWatchpointFile: (run: string, content: unknown) =>
    change<unknown>("PUT", `${runPath(run)}/watchpoints/file`, content),
  recheck: (run: string) => change<RunView>("POST", `${runPath(run)}/recheck`),
  hits: (run: string, filter: HitFilter, offset: number, limit: number, signal?: AbortSignal) =>
    get<HitPage>(`${runPath(run)}/hits`, { ...filter, offset, limit }, signal),
  comparison: (run: string, signal?: AbortSignal) => get<ComparisonView>(`${runPath(run)}/comparison`, {}, signal),
  pairs: (run: string, filter: PairFilter, offset: number, limit: number, signal?: AbortSignal) =>
    get<PairPage>(`${runPath(run)}/comparison/pairs`, { ...filter, offset, limit }, signal),
  unpaired: (run: string, side: string, offset: number, limit: number, signal?: AbortSignal) =>
    get<UnpairedPage>(`${runPath(run)}/comparison/unpaired`, { side, offset, limit }, signal),
  pairMarks: (run: string, rank: number, graph: number, scope: string, group: string, signal?: AbortSignal) =>
    get<LevelMarks>(`${runPath(run)}/comparison/marks`, { rank, graph, scope, group }, signal),
  loss: (run: string, rank: number, after: number | null, signal?: AbortSignal) =>
    get<LossCurve>(`${runPath(run)}/loss`, { rank, after }, signal),
};
