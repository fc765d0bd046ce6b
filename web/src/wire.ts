// Made from the Python types by `python -m sonde.wire.typescript web/src/wire.ts`; do not edit.

/** A number; "nan", "inf", "-inf" and whole numbers beyond 2**53 are texts. */
export type Num = number | string;

export type Io = "input" | "output";
export type Phase = "forward" | "backward" | "optimizer";
export type NodeKind = "op" | "parameter" | "input" | "constant";
export type Category = "weight" | "gradient" | "activation" | "tensor";
export type State = "waiting" | "running" | "paused" | "ended" | "lost";
export type PauseReason = "start" | "pause" | "step" | "op" | "missed" | "hit" | "breakpoint";
export type GraphBasis = "run" | "trace" | "modules";
export type GraphDetail = "model" | "step" | "everything";
export type BoxStatistic = "l2norm" | "max" | "zeros" | "non-finite" | "distance" | "time";
export type Verdict = "hit" | "undecided";
export type Part = "producer" | "carrier" | "other";
export type EvidenceStatus = "established" | "supported" | "hypothesis";
export type Command = "continue" | "pause" | "step" | "next" | "to" | "terminate";
export type StepPart = "network" | "data" | "loss" | "gradients" | "backward" | "recomputed" | "optimizer" | "other" | "";
export type RunKind = "live" | "dump";
export type HeadlineKind = "hit" | "loss" | "crash" | "overflow" | "divergence" | "finding" | "lost";
export type HitPhase = "forward" | "backward" | "optimizer" | "weights";
export type ComparedVerdict = "aligned" | "diverged" | "incomparable";
export type PairStatus = "equal" | "within" | "rounding" | "inherited" | "diverged" | "incomparable" | "not dumped";
export type PairSort = "order" | "error";
export type Side = "a" | "b";
export type MergeKind = "concatenate" | "mean" | "sum" | "one";

/**
 * A line of the user's code. `library`: where in a library the op ran, such as `in
 * transformers/pytorch_utils.py:119`, if this line called the library; else empty.
 */
export interface SourceLine {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly code: string;
  readonly library: string;
}

export interface TensorType {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** The producer of an input: a full op name, or None if unknown. */
export interface InputEdge {
  readonly producer: string | null;
  readonly slot: number;
  readonly type: TensorType;
}

/**
 * One op or leaf of a graph; `order` is its position in the execution, leaves included.
 * `categories`: a watch condition applies to nodes of one category (every node is a "tensor").
 */
export interface Node {
  readonly name: string;
  readonly type: string;
  readonly scope: string;
  readonly phase: Phase;
  readonly kind: NodeKind;
  readonly order: number;
  readonly inputs: readonly InputEdge[];
  readonly outputs: readonly TensorType[];
  readonly attributes: readonly (readonly [string, string])[];
  readonly sources: readonly SourceLine[];
  readonly categories: readonly Category[];
}

/** One tensor of a rank; `step` None: the latest step. */
export interface TensorName {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly step: number | null;
}

/**
 * `core.statistics.Statistics` on the wire. None: unknown, because a dump has only some of the
 * numbers; if such a dump has no counts of NaN and Inf, 1 means "some".
 */
export interface StatisticNumbers {
  readonly count: number;
  readonly nan_count: number;
  readonly positive_inf_count: number;
  readonly negative_inf_count: number;
  readonly zero_count: number | null;
  readonly negative_count: number | null;
  readonly positive_count: number | null;
  readonly max: Num | null;
  readonly min: Num | null;
  readonly finite_max: Num | null;
  readonly finite_min: Num | null;
  readonly avg: Num | null;
  readonly l2norm: Num | null;
  readonly std: Num | null;
  readonly abs_mean: Num | null;
}

/** A condition by its id and the parameters that are set; an expression has `expression`. */
export interface ConditionSpec {
  readonly id: string;
  readonly parameters: Readonly<Record<string, number>>;
  readonly expression: string;
}

/**
 * Which tensors to watch, with which conditions, and when to pause. `ops`: patterns as in
 * `kernels`, or a scope that ends with `/`; empty: every tensor to which the conditions apply.
 * `!` before a pattern excludes the ops that it matches; the last pattern that matches an op
 * decides, and if the first excludes, all other ops are included. `join`: whether one
 * condition suffices ("any") or all must hold. The training pauses at every `break_after`-th
 * hit; 0: never, hits are only listed.
 */
export interface WatchpointSpec {
  readonly id: number;
  readonly name: string;
  readonly conditions: readonly ConditionSpec[];
  readonly ops: readonly string[];
  readonly join: "all" | "any";
  readonly enabled: boolean;
  readonly break_after: number;
  readonly ranks: readonly number[];
}

/** One parameter of a condition: its configured value (`preset`) and the measured one. */
export interface ParameterValue {
  readonly name: string;
  readonly preset: Num | null;
  readonly actual: Num | null;
}

/** A frame of the traceback of a failed program; `is_own`: of the user's own code. */
export interface TracebackFrame {
  readonly line: SourceLine;
  readonly is_own: boolean;
}

/** A tensor as the program calls it: `self.weight`. */
export interface NamedTensor {
  readonly name: string;
  readonly type: TensorType;
}

/**
 * The call that raised the error of a failed program. `operator`: the function or method,
 * empty if it is not known; `module`: the innermost one that ran, by its path in the outermost
 * one, which has none, and its class, empty outside of modules; `tensors`: what was passed.
 */
export interface FailedCall {
  readonly operator: string;
  readonly module: string;
  readonly module_class: string;
  readonly tensors: readonly NamedTensor[];
}

/**
 * What is wrong: `title` in a few words; `text` is the whole sentence and begins with it. Code
 * is between backticks. `source`: the line that it names.
 */
export interface HeadlineText {
  readonly title: string;
  readonly text: string;
  readonly source: SourceLine | null;
}

/**
 * A tensor on which a watchpoint was met. The verdict "undecided" never pauses a training;
 * `why` gives the reason. `part`: whether the op produced the non-finite values from finite
 * ones, or passed them on. `origin` is the op that produced them, `chain` the ops from there
 * to this one, both included. `number` counts the hits of a rank, from 0. `status`: how
 * certain the hit is. `headline`: the sentence about the origin, or about the number found;
 * None if undecided. `advice`: what to do. `is_harmless`: undecided because NaN or Inf reached
 * neither the loss nor an update of weights.
 */
export interface Hit {
  readonly number: number;
  readonly watchpoint: number;
  readonly condition: string;
  readonly rank: number;
  readonly step: number;
  readonly order: number;
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly type: TensorType;
  readonly verdict: Verdict;
  readonly why: string;
  readonly values: readonly ParameterValue[];
  readonly part: Part;
  readonly origin: string | null;
  readonly chain: readonly string[];
  readonly source: SourceLine | null;
  readonly count: number;
  readonly status: EvidenceStatus;
  readonly headline: HeadlineText | null;
  readonly advice: string;
  readonly is_harmless: boolean;
}

/**
 * The hit at which a training stopped: its watchpoint (with its name at that time), the
 * condition that was met, the tensor, the sentence about it, and the op that produced NaN or
 * Inf.
 */
export interface HitRef {
  readonly watchpoint: number;
  readonly name: string;
  readonly condition: string;
  readonly step: number;
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly headline: HeadlineText | null;
  readonly origin: string | null;
}

/** One measured fact of a finding, as it is shown. */
export interface EvidenceText {
  readonly name: string;
  readonly value: string;
}

/**
 * What a diagnosis found. `kind` is the rule, a page of `docs/rules`; `detail` a more precise
 * kind, or empty. `where`: lines, modules, parameters, functions, the most exact first;
 * `lines` are the source lines among them. `step`: from which on it holds. `explains`: the
 * symptoms that this cause explains.
 */
export interface FindingView {
  readonly kind: string;
  readonly detail: string;
  readonly status: EvidenceStatus;
  readonly message: string;
  readonly where: readonly string[];
  readonly step: number | null;
  readonly evidence: readonly EvidenceText[];
  readonly explains: readonly string[];
  readonly advice: string;
  readonly lines: readonly SourceLine[];
}

/**
 * What the diagnosis of a training has found in its first `steps` steps, causes first.
 * `is_over`: the training has ended, and the list has the final word.
 */
export interface DiagnosisView {
  readonly steps: number;
  readonly is_over: boolean;
  readonly findings: readonly FindingView[];
}

/**
 * Values that are kept on request: those of the ops that `pattern` matches, of the last
 * `steps` steps; they take `nbytes` now.
 */
export interface KeptOp {
  readonly pattern: string;
  readonly steps: number;
  readonly nbytes: number;
}

/** Facts about a training process. `extra` is shown unchanged. */
export interface Metadata {
  readonly host: string;
  readonly pid: number;
  readonly rank: number;
  readonly world_size: number;
  readonly device: string;
  readonly framework: string;
  readonly framework_version: string;
  readonly sonde_version: string;
  readonly python_version: string;
  readonly script: string;
  readonly arguments: readonly string[];
  readonly working_directory: string;
  readonly started: number;
  readonly extra: Readonly<Record<string, string>>;
}

/**
 * A step that has ended. `seconds`: its duration without pauses. `bare_seconds`: the same
 * without Sonde's own work at its end, known only if neither ops nor gradients were observed.
 * `observed`: its ops were observed. `optimizer`: the optimizer whose step ended it, such as
 * `Adam of Generator`; empty if there was none.
 */
export interface LossPoint {
  readonly step: number;
  readonly loss: Num | null;
  readonly seconds: number;
  readonly bare_seconds: number | null;
  readonly observed: boolean;
  readonly optimizer: string;
}

/** `counts[i]` finite elements in [edges[i], edges[i + 1]), the last bin closed. */
export interface Histogram {
  readonly edges: readonly number[];
  readonly counts: readonly number[];
}

export interface Summary {
  readonly tensor: TensorName;
  readonly type: TensorType;
  readonly statistics: StatisticNumbers | null;
  readonly histogram: Histogram | null;
}

/**
 * `values` row by row; a tensor of less than two dimensions is one row. `index` is the one
 * that was used; `row_start` and so on say which elements these are.
 */
export interface Table {
  readonly tensor: TensorName;
  readonly type: TensorType;
  readonly index: string;
  readonly rows: number;
  readonly columns: number;
  readonly row_start: number;
  readonly column_start: number;
  readonly row_step: number;
  readonly column_step: number;
  readonly values: readonly Num[];
}

/**
 * `cells` row by row, of the finite elements of a cell, None if it has none: their mean, or
 * the one of largest magnitude, as the question says; `marks`: the sum of 1 for NaN, 2 for
 * +Inf and 4 for -Inf among its elements. `low` and `high`: the extremes of the finite cells.
 */
export interface Heat {
  readonly tensor: TensorName;
  readonly type: TensorType;
  readonly index: string;
  readonly rows: number;
  readonly columns: number;
  readonly cells: readonly (number | null)[];
  readonly marks: readonly number[];
  readonly low: number | null;
  readonly high: number | null;
}

/** The main fields of `kernels.Distances`. */
export interface DistanceNumbers {
  readonly max_abs_error: Num;
  readonly mean_abs_error: Num;
  readonly max_relative_error: Num;
  readonly mean_relative_error: Num;
  readonly cosine: Num;
  readonly relative_l2: Num;
  readonly max_ulp: Num;
  readonly within_1: number;
  readonly within_5: number;
  readonly equal_count: number;
  readonly count: number;
  readonly non_finite_disagreed: number;
}

/** Two tensors and their difference on one plane, and the distances of the whole tensors. */
export interface Compared {
  readonly a: Table;
  readonly b: Table;
  readonly difference: Table;
  readonly heat: Heat;
  readonly distances: DistanceNumbers;
  readonly boundary: number;
}

/**
 * `kept`: whether values are available, else `why` not; `steps`: of which steps.
 * `statistics_step`: the step of the statistics, if they were recorded without the values.
 */
export interface OpTensor {
  readonly io: Io;
  readonly slot: number;
  readonly type: TensorType;
  readonly statistics: StatisticNumbers | null;
  readonly kept: boolean;
  readonly steps: readonly number[];
  readonly why: string;
  readonly statistics_step: number | null;
}

export interface OpTensors {
  readonly op: string;
  readonly step: number | null;
  readonly tensors: readonly OpTensor[];
  readonly sources: readonly SourceLine[];
}

/**
 * `judged` tensors were evaluated and gave `hits` new hits. `missing` tensors of step `step`
 * are not available, `examples` names some of them. The watchpoints `later` are evaluated only
 * while a step runs.
 */
export interface Checked {
  readonly step: number;
  readonly judged: number;
  readonly hits: number;
  readonly missing: number;
  readonly examples: readonly string[];
  readonly later: readonly number[];
}

/**
 * `optimizer`: the one whose step ran the graph last; empty if unknown. `basis`: where the
 * nodes are known from, see `rank.GraphPart`. `nodes` 0: not known yet. `steps`: the first and
 * last of consecutive steps that ran it, the newest ones if there are many. `like`: for a
 * graph that is still growing, the whole graph to show in its place, which has nearly all of
 * its ops. `here`: the place of the rank's current op in it. `difference`: what it has that
 * the usual graph has not, or the other way round; empty for the usual graph, and if it is not
 * known. `is_compiled`: it has ops of code that `torch.compile` compiled.
 */
export interface GraphInfo {
  readonly id: number;
  readonly name: string;
  readonly nodes: number;
  readonly whole: boolean;
  readonly optimizer: string;
  readonly basis: GraphBasis;
  readonly steps: readonly (readonly [number, number])[];
  readonly like: number | null;
  readonly here: number | null;
  readonly difference: string;
  readonly is_compiled: boolean;
}

/**
 * One box of an expanded scope: an op, a leaf, a scope (with `ops` ops inside), or a group of
 * `stands_for` similar ones drawn as one box (`members`: the paths of the first of them).
 * `path` identifies the box: an op's full name, a scope that ends with `/`, or for a group its
 * scope, `*` and a word, which is the parameter `group` of the next request. `part`: the part
 * of the training step that a box of the outermost level stands for; empty in other levels.
 * `is_function`: a scope that only the page has, of consecutive ops outside of all modules;
 * `members` are those ops. `findings`: the kinds of the findings of the diagnosis that name
 * the box, or something inside it.
 */
export interface LevelNode {
  readonly path: string;
  readonly label: string;
  readonly what: "group" | "op" | "outside" | "scope";
  readonly type: string;
  readonly kind: NodeKind;
  readonly phase: Phase;
  readonly ops: number;
  readonly stands_for: number;
  readonly members: readonly string[];
  readonly hits: number;
  readonly has_origin: boolean;
  readonly first_order: number;
  readonly last_order: number;
  readonly part: StepPart;
  readonly is_function: boolean;
  readonly findings: readonly string[];
}

/** Data from one box to another: how many tensors, and the type if all have the same. */
export interface LevelEdge {
  readonly source: string;
  readonly target: string;
  readonly tensors: number;
  readonly label: string;
}

/**
 * What is directly inside `scope` (empty: the whole graph), or the members of its group
 * `group`, in execution order. Boxes outside that exchange data with it are included with
 * `what == "outside"`. `hidden`: boxes left out because there are too many.
 */
export interface Level {
  readonly graph: number;
  readonly scope: string;
  readonly group: string;
  readonly nodes: readonly LevelNode[];
  readonly edges: readonly LevelEdge[];
  readonly hidden: number;
}

/**
 * The scopes of a graph that may be open at first: those of one depth together, outer ones
 * before inner ones. The page opens as many depths as fit.
 */
export interface Opening {
  readonly graph: number;
  readonly depths: readonly (readonly string[])[];
}

/** A parameter or buffer that ops of a scope read; `elements`: how many numbers it has. */
export interface ScopeParameter {
  readonly name: string;
  readonly type: TensorType;
  readonly elements: number;
  readonly is_weight: boolean;
}

/** A tensor that enters or leaves a scope: output `slot` of `producer`. */
export interface ScopeTensor {
  readonly producer: string;
  readonly slot: number;
  readonly type: TensorType;
}

/**
 * Everything about one scope. `cls`: its class, empty if it is not a module. `elements`: of
 * all parameters together. `inputs` and `outputs`: tensors exchanged with ops of the same
 * phase. `defined`: the line at which the class begins, if it is the user's own; `called`: the
 * line that called the module. `op_names`: the ops of a scope that only the page has
 * (`is_function`).
 */
export interface ScopeView {
  readonly path: string;
  readonly graph: number;
  readonly label: string;
  readonly cls: string;
  readonly phase: Phase;
  readonly part: StepPart;
  readonly is_function: boolean;
  readonly ops: number;
  readonly first_order: number;
  readonly op_names: readonly string[];
  readonly parameters: readonly ScopeParameter[];
  readonly elements: number;
  readonly inputs: readonly ScopeTensor[];
  readonly outputs: readonly ScopeTensor[];
  readonly hits: number;
  readonly defined: SourceLine | null;
  readonly called: SourceLine | null;
}

/** The largest value of a statistic inside a box of the graph. */
export interface BoxValue {
  readonly path: string;
  readonly value: Num;
}

/**
 * A statistic of each box of a level that has one. `least` and `most`: of the finite values in
 * the whole graph; `known`: how many ops have a value.
 */
export interface LevelValues {
  readonly statistic: string;
  readonly step: number | null;
  readonly boxes: readonly BoxValue[];
  readonly least: Num;
  readonly most: Num;
  readonly known: number;
}

export interface FoundScope {
  readonly path: string;
  readonly label: string;
  readonly ops: number;
}

/** The scopes that match; `total` counts all of them. */
export interface ScopeList {
  readonly total: number;
  readonly scopes: readonly FoundScope[];
}

export interface ListedNode {
  readonly name: string;
  readonly type: string;
  readonly scope: string;
  readonly phase: Phase;
  readonly kind: NodeKind;
  readonly order: number;
  readonly categories: readonly Category[];
  readonly hits: number;
  readonly source: SourceLine | null;
}

/** A page of the ops that match; `total` counts all that match. */
export interface NodePage {
  readonly total: number;
  readonly offset: number;
  readonly nodes: readonly ListedNode[];
}

/** One line of the scope tree: a scope (`path` ends with `/`) or a node. */
export interface TreeEntry {
  readonly path: string;
  readonly label: string;
  readonly is_scope: boolean;
  readonly type: string;
  readonly kind: NodeKind;
  readonly ops: number;
  readonly hits: number;
}

export interface TreePage {
  readonly scope: string;
  readonly total: number;
  readonly offset: number;
  readonly entries: readonly TreeEntry[];
}

/** A line of the user's code and how many ops it ran. */
export interface SourceUse {
  readonly file: string;
  readonly line: number;
  readonly code: string;
  readonly ops: number;
}

export interface SourceList {
  readonly total: number;
  readonly lines: readonly SourceUse[];
}

/** Lines of a source file that an op of the run names, from `first` on. */
export interface CodeText {
  readonly file: string;
  readonly first: number;
  readonly lines: readonly string[];
}

/**
 * Everything about one node except its tensors; `consumers` by output slot. `hits`: their
 * number, without undecided results. `shown_in`: the scope that contains it in the views
 * "model" and "step", which do not draw it if `is_folded`; otherwise its inputs and
 * `consumers` are in these views the nodes that they draw.
 */
export interface OpView {
  readonly node: Node;
  readonly graph: number;
  readonly consumers: readonly (readonly [number, string])[];
  readonly hits: number;
  readonly shown_in: string;
  readonly is_folded: boolean;
}

/** Text to show about watchpoint `id`: its patterns match nothing in the ops seen so far. */
export interface WatchpointWarning {
  readonly id: number;
  readonly text: string;
}

/** One parameter of a condition; `check`: measured values are compared with it. */
export interface ParameterInfo {
  readonly name: string;
  readonly check: boolean;
  readonly default: number | null;
  readonly lowest: Num;
  readonly highest: Num;
  readonly description: string;
}

export interface ConditionInfo {
  readonly id: string;
  readonly title: string;
  readonly abbreviation: string;
  readonly target: Category;
  readonly formula: string;
  readonly description: string;
  readonly advice: string;
  readonly parameters: readonly ParameterInfo[];
}

/**
 * A set of watchpoints for one purpose. `finds` completes "watches for"; `names` are those of
 * its watchpoints; `cost`: how many times longer a step takes, as a text.
 */
export interface PresetInfo {
  readonly id: string;
  readonly title: string;
  readonly finds: string;
  readonly names: readonly string[];
  readonly cost: string;
}

/** Every watch condition, the names that an expression may use, and the presets. */
export interface Catalogue {
  readonly conditions: readonly ConditionInfo[];
  readonly expression_names: readonly string[];
  readonly presets: readonly PresetInfo[];
}

/**
 * What a watchpoint would have hit in step `step`: `hits` of the `judged` tensors that it
 * applies to, `examples` names some. `undecided`: of how many others that cannot be told from
 * statistics alone; they are not in `judged`. `step` None: nothing has been recorded yet.
 */
export interface Preview {
  readonly step: number | null;
  readonly judged: number;
  readonly hits: number;
  readonly undecided: number;
  readonly examples: readonly string[];
}

/** A watchpoint without an id: a new one, or the new content of an existing one. */
export interface WatchpointDraft {
  readonly name: string;
  readonly conditions: readonly ConditionSpec[];
  readonly ops?: readonly string[];
  readonly join?: "all" | "any";
  readonly enabled?: boolean;
  readonly break_after?: number;
  readonly ranks?: readonly number[];
}

/**
 * A watchpoint as it was set. `warning`: text to show, such as that no op matches its
 * patterns; else empty.
 */
export interface WatchpointAnswer {
  readonly id: number;
  readonly name: string;
  readonly conditions: readonly ConditionSpec[];
  readonly ops: readonly string[];
  readonly join: "all" | "any";
  readonly enabled: boolean;
  readonly break_after: number;
  readonly ranks: readonly number[];
  readonly warning: string;
}

export interface WatchpointList {
  readonly watchpoints: readonly WatchpointSpec[];
  readonly warnings: readonly WatchpointWarning[];
}

/** A saved set of watchpoints. */
export interface WatchpointFile {
  readonly watchpoints: readonly WatchpointDraft[];
  readonly version?: 1;
}

/**
 * One rank of a run as the header of the page shows it. `seconds`: the median duration of
 * recent steps; None before the first step has ended. `bare_seconds`: the median duration of
 * the latest steps that were not observed; None if every step was observed. Both exclude
 * pauses. `is_measuring`: one coming step is to run unobserved, as the user asked, and has not
 * ended yet. `hit`: the hit at which the training is paused. `exit_code`, `error` (the last
 * line of the exception) and `is_terminated` (by the debugger) are set when the program has
 * ended. `message` is text to show. `is_answering`: the process answers heartbeats. `address`:
 * of the training process, IP address and port; empty for a dump. `frames`: the traceback of a
 * program that failed, outermost first; `failed`: the call that raised the error. `waits_for`:
 * the ranks that are paused, while this one runs and has made no progress since. `kept`: the
 * values that are kept on request; `recorded`: the ops whose statistics are recorded in every
 * step, on request. `recording`: the number of ops of the running step so far, while the first
 * graph is recorded; else None.
 */
export interface RankView {
  readonly rank: number;
  readonly state: State;
  readonly step: number;
  readonly graph: number | null;
  readonly op: string | null;
  readonly order: number | null;
  readonly reason: PauseReason | null;
  readonly message: string;
  readonly hits: number;
  readonly graphs: readonly GraphInfo[];
  readonly steps: readonly number[];
  readonly metadata: Metadata | null;
  readonly seconds: number | null;
  readonly bare_seconds: number | null;
  readonly exit_code: number | null;
  readonly error: string;
  readonly is_terminated: boolean;
  readonly hit: HitRef | null;
  readonly is_measuring: boolean;
  readonly is_answering: boolean;
  readonly address: string;
  readonly frames: readonly TracebackFrame[];
  readonly failed: FailedCall | null;
  readonly waits_for: readonly number[];
  readonly kept: readonly KeptOp[];
  readonly recorded: readonly string[];
  readonly recording: number | null;
}

/**
 * What is wrong with a run: `title` in a few words; `text` is the whole sentence, begins with
 * it, and has code between backticks. `op`, `io`, `slot`, `step` and `rank`: the tensor that
 * shows it, an empty `op` if there is none. `others`: how many got it from there. `advice`:
 * what to do. `command`: runs the program again to find the op that made NaN or Inf, where
 * that is not known; else empty.
 */
export interface RunHeadline {
  readonly kind: HeadlineKind;
  readonly severity: "error" | "warning";
  readonly title: string;
  readonly text: string;
  readonly advice: string;
  readonly rank: number | null;
  readonly step: number | null;
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly source: SourceLine | null;
  readonly others: number;
  readonly command: string;
}

/**
 * Progress of a check of the watchpoints on all tensors of a dump, or the result of a check on
 * the tensors that a training has now: `done` of `total` tensors were evaluated; `notes` say
 * which were not, and why. `seconds_left`: an estimate while a check runs.
 */
export interface RecheckView {
  readonly running: boolean;
  readonly done: number;
  readonly total: number;
  readonly hits: number;
  readonly notes: readonly string[];
  readonly seconds_left: number | null;
}

/**
 * `revision` grows with every change of the other fields; `controls` are the commands that are
 * possible (for a dump only those of `recheck`). `peer`: the second dump of a view.
 * `unobserved`: what was not observed of the run, so that no hits there mean nothing.
 * `warnings`: about watchpoints whose patterns match nothing. `headline`: what is wrong, if
 * anything is. `diagnosis`: None if the training was not diagnosed. `opens_with_health`: its
 * first screen is its health: it has several steps of which signals are known, and no pause.
 */
export interface RunView {
  readonly id: string;
  readonly kind: RunKind;
  readonly title: string;
  readonly revision: number;
  readonly ranks: readonly RankView[];
  readonly watchpoints: readonly WatchpointSpec[];
  readonly controls: readonly Command[];
  readonly notices: readonly string[];
  readonly peer: string | null;
  readonly recheck: RecheckView | null;
  readonly unobserved: readonly string[];
  readonly warnings: readonly WatchpointWarning[];
  readonly headline: RunHeadline | null;
  readonly diagnosis: DiagnosisView | null;
  readonly opens_with_health: boolean;
}

/**
 * `rank_port`: the port to which trainings connect; None if the server shows only dumps.
 * `fingerprint`: of the server's certificate, empty without TLS.
 */
export interface RunList {
  readonly runs: readonly RunView[];
  readonly rank_port: number | null;
  readonly fingerprint: string;
}

/**
 * `rank` None: all ranks. `wait_seconds`: answer when the training pauses or ends again, at
 * the latest after this time.
 */
export interface ControlRequest {
  readonly command: Command;
  readonly steps?: number;
  readonly op?: string;
  readonly rank?: number | null;
  readonly wait_seconds?: number;
}

/**
 * Where a graph has what the finding `kind` names: ops and parameters by their full names,
 * scopes with a `/` at the end; empty if the graph has none of it.
 */
export interface FindingPlace {
  readonly kind: string;
  readonly paths: readonly string[];
}

export interface FindingPlaces {
  readonly places: readonly FindingPlace[];
}

/** The documentation of a rule as Markdown: the text of its page in `docs/rules`. */
export interface RulePage {
  readonly kind: string;
  readonly text: string;
}

/**
 * In execution order: step, then place in the step, inputs and parameters first. `dropped`:
 * further ones of the rank, or of all, that were not kept, because there were so many.
 */
export interface HitPage {
  readonly total: number;
  readonly offset: number;
  readonly hits: readonly Hit[];
  readonly dropped: number;
}

/** The tensors of a cause in one phase: how many, and how many hits they have. */
export interface CausePhase {
  readonly phase: HitPhase;
  readonly tensors: number;
  readonly hits: number;
}

/**
 * Hits of one cause: those whose NaN and Inf come from the op `origin`; without an origin,
 * those of one condition. `first`: the hit of the op that produced them, or the first.
 * `others`: how many other tensors have hits of this cause.
 */
export interface CauseView {
  readonly rank: number;
  readonly origin: string;
  readonly watchpoint: number;
  readonly condition: string;
  readonly first: Hit;
  readonly hits: number;
  readonly others: number;
  readonly phases: readonly CausePhase[];
}

/**
 * Causes of NaN and Inf first, the earliest first. `undecided`: results that could not be
 * decided, which have no cause; `harmless`: tensors with NaN or Inf that are no fault.
 */
export interface CauseList {
  readonly total: number;
  readonly causes: readonly CauseView[];
  readonly undecided: number;
  readonly harmless: number;
}

export interface LossCurve {
  readonly rank: number;
  readonly points: readonly LossPoint[];
}

/** `update_ratio`: of a weight, the norm of its update in the step by its norm before. */
export interface StatisticPoint {
  readonly step: number;
  readonly statistics: StatisticNumbers;
  readonly update_ratio: Num | null;
}

/**
 * Statistics of one tensor in all known steps. `is_recorded`: those of every coming step are
 * recorded, too.
 */
export interface StatisticCurve {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly type: TensorType;
  readonly points: readonly StatisticPoint[];
  readonly is_recorded: boolean;
}

/** Keep the values of the ops that match the patterns, `steps` steps back; 0: no longer. */
export interface KeepRequest {
  readonly ops: readonly string[];
  readonly steps?: number;
  readonly rank?: number | null;
}

/**
 * Record the statistics of the op, or of the one that makes its input `slot`, in every step
 * from now on; `is_on` False: no longer.
 */
export interface RecordRequest {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly is_on: boolean;
  readonly rank: number | null;
}

/** The body of every answer that is not 2xx. `slug` is a heading of `docs/messages.md`. */
export interface Problem {
  readonly error: string;
  readonly slug: string;
}

/** One line of the event socket: run `run` changed; fetch what you show of `topics`. */
export interface Event {
  readonly run: string;
  readonly revision: number;
  readonly topics: readonly ("graph" | "hits" | "loss" | "notices" | "status" | "watchpoints")[];
}

/** One tensor of a pair; `parameter`: the name of the parameter whose value it is. */
export interface PairedTensor {
  readonly op: string;
  readonly io: Io;
  readonly slot: number;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly parameter: string | null;
}

/** Two tensors that should be equal; `problem` says why they could not be compared. */
export interface PairedTensors {
  readonly a: PairedTensor;
  readonly b: PairedTensor;
  readonly error: Num;
  readonly distances: DistanceNumbers | null;
  readonly layout: string;
  readonly problem: string;
}

/** Two ops that compute the same; `number` is the index among all pairs. */
export interface PairView {
  readonly number: number;
  readonly step: number;
  readonly rank: number;
  readonly order: number;
  readonly a: string;
  readonly b: string;
  readonly type_a: string;
  readonly type_b: string;
  readonly kind: string;
  readonly phase: Phase;
  readonly how: string;
  readonly status: PairStatus;
  readonly error: Num;
  readonly input_error: Num;
  readonly allowed: Num;
  readonly members_a: readonly string[];
  readonly members_b: readonly string[];
  readonly source_a: SourceLine | null;
  readonly source_b: SourceLine | null;
  readonly tensors: readonly PairedTensors[];
  readonly notes: readonly string[];
}

/** A page of the pairs that match; `total` counts all that match. */
export interface PairPage {
  readonly total: number;
  readonly offset: number;
  readonly pairs: readonly PairView[];
}

/** An op of one side without a counterpart. */
export interface UnpairedView {
  readonly step: number;
  readonly rank: number;
  readonly side: Side;
  readonly op: string;
  readonly type: string;
  readonly phase: Phase;
  readonly source: SourceLine | null;
  readonly reason: string;
}

export interface UnpairedPage {
  readonly total: number;
  readonly offset: number;
  readonly unpaired: readonly UnpairedView[];
}

export interface ComparedLoss {
  readonly step: number;
  readonly rank: number;
  readonly a: Num | null;
  readonly b: Num | null;
  readonly agrees: boolean | null;
}

/**
 * The first op whose outputs differ although its inputs agree. `tensor`: the tensors of the
 * pair that show it.
 */
export interface FirstDivergence {
  readonly pair: PairView;
  readonly tensor: PairedTensors;
  readonly cause: string;
  readonly confidence: "high" | "low";
  readonly inheritors: number;
}

/**
 * Progress and result of the comparison. `a` and `b` are the ids of the two runs, `side` says
 * which of them this run is; b is the reference. `verdict` is set when the comparison has
 * ended, `problem` if it failed. `counts`: pairs by status.
 */
export interface ComparisonView {
  readonly a: string;
  readonly b: string;
  readonly side: Side;
  readonly running: boolean;
  readonly what: string;
  readonly done: number;
  readonly total: number;
  readonly problem: string;
  readonly verdict: ComparedVerdict | null;
  readonly by: string;
  readonly first: FirstDivergence | null;
  readonly reasons: readonly string[];
  readonly notes: readonly string[];
  readonly losses: readonly ComparedLoss[];
  readonly counts: Readonly<Record<string, number>>;
  readonly pairs: number;
  readonly unpaired_a: number;
  readonly unpaired_b: number;
}

/**
 * How a box of the graph compares: the worst status inside it; `first`: the first divergence
 * is inside it. `status` None: nothing inside it has a counterpart.
 */
export interface LevelMark {
  readonly path: string;
  readonly status: PairStatus | null;
  readonly first: boolean;
}

export interface LevelMarks {
  readonly marks: readonly LevelMark[];
}

/**
 * What a check over ranks found: `ranks` that differ from the others, or made it, from `step`
 * on. `places`: source lines, modules and tensors, the most exact first.
 */
export interface RankFinding {
  readonly kind: string;
  readonly status: string;
  readonly severity: string;
  readonly message: string;
  readonly advice: string;
  readonly step: number | null;
  readonly ranks: readonly number[];
  readonly places: readonly string[];
}

/** One check, and what it found; `kinds` are those of its findings. */
export interface RankCheckRow {
  readonly name: string;
  readonly kinds: readonly string[];
  readonly findings: readonly RankFinding[];
}

/** `role`: data, tensor or pipeline; empty if it is not known. */
export interface RankGroup {
  readonly name: string;
  readonly role: string;
  readonly ranks: readonly number[];
}

/**
 * How a parameter is laid out over a group; `dim`: that of a shard. `is_inferred`: the program
 * does not say it.
 */
export interface RankPlacement {
  readonly tensor: string;
  readonly group: string;
  readonly kind: string;
  readonly dim: number;
  readonly is_inferred: boolean;
}

/**
 * The comparison of the ranks of a run. `is_compared`: whether they are compared at all.
 * `ranks` have reported, of `world_size`; `last_steps`: the last step of each of them.
 * `parted_step`: the first step in which a finding says that they differ; -1: before it.
 */
export interface RanksView {
  readonly is_compared: boolean;
  readonly world_size: number;
  readonly ranks: readonly number[];
  readonly last_steps: readonly number[];
  readonly judged_steps: number;
  readonly parted_step: number | null;
  readonly checks: readonly RankCheckRow[];
  readonly groups: readonly RankGroup[];
  readonly placements: readonly RankPlacement[];
}

/**
 * A tensor on one rank. `same_as`: the lowest rank with the same values, itself if no lower
 * one has them. `distances`: from those of the first rank; None where shapes differ. `why`:
 * why the rank has no values; then the rest is empty.
 */
export interface RankValues {
  readonly rank: number;
  readonly type: TensorType | null;
  readonly statistics: StatisticNumbers | null;
  readonly same_as: number | null;
  readonly distances: DistanceNumbers | null;
  readonly why: string;
}

/**
 * The tensor of all ranks put together: `kind` along `dim`. `is_by_placement`: as its
 * placement says, else as the user chose, or guessed from its shapes.
 */
export interface MergedTensor {
  readonly kind: MergeKind;
  readonly dim: number;
  readonly is_by_placement: boolean;
  readonly type: TensorType;
  readonly statistics: StatisticNumbers | null;
  readonly heat: Heat;
}

/** One tensor on all ranks side by side. `merged` None: `why_not_merged` says why. */
export interface TensorOfRanks {
  readonly tensor: TensorName;
  readonly ranks: readonly RankValues[];
  readonly merged: MergedTensor | null;
  readonly why_not_merged: string;
}

/**
 * A signal by step; None: not known in this step. Of very many steps only those that are seen
 * in a picture of so many points: extremes, and values that are not finite. `low` and `high`:
 * the extremes of steps that were thinned to one, empty if none were. `optimizer`: the curve
 * has the steps of this optimizer only, empty if the run has a single one.
 */
export interface SignalCurve {
  readonly name: string;
  readonly steps: readonly number[];
  readonly values: readonly (Num | null)[];
  readonly low: readonly (Num | null)[];
  readonly high: readonly (Num | null)[];
  readonly optimizer: string;
}

/** A statistic that a run has of its layers. */
export interface LayerStatisticView {
  readonly name: string;
  readonly description: string;
}

/** What made a run, or what it made. `name` is a group and a word: `train learning_rate`. */
export interface LineageFact {
  readonly name: string;
  readonly value: string;
}

/**
 * `first` and `last`: the steps that the run has statistics or signals of, None without any.
 * `missing`: why there is no map of layers, and what to do; empty if there is one.
 */
export interface HealthView {
  readonly rank: number;
  readonly first: number | null;
  readonly last: number | null;
  readonly curves: readonly SignalCurve[];
  readonly statistics: readonly LayerStatisticView[];
  readonly missing: string;
}

/**
 * A part of the map of layers by steps: `rows` of `layers_per_row` layers from layer `top` on,
 * `columns` of `steps_per_column` steps from step `first` on. `layers`: the first layer of
 * each row. `cells`: row by row the greatest value in each cell, as float32 in little-endian
 * order, Base64; -inf for a cell without a value. `other_cells`: the same of the other run,
 * empty without one. `total_layers`, `first_step` and `last_step` are those of the whole map;
 * `least` (above zero) and `greatest` the ends of a scale for it, its 1st and 99th percentile.
 */
export interface LayerCells {
  readonly rank: number;
  readonly statistic: string;
  readonly total_layers: number;
  readonly first_step: number;
  readonly last_step: number;
  readonly top: number;
  readonly layers_per_row: number;
  readonly rows: number;
  readonly first: number;
  readonly steps_per_column: number;
  readonly columns: number;
  readonly layers: readonly string[];
  readonly cells: string;
  readonly least: number | null;
  readonly greatest: number | null;
  readonly other_cells: string;
}

/**
 * A tensor that a cell is computed from, with its greatest value in the cell and the step that
 * has it. `is_tensor`: the tensor view can show it.
 */
export interface LayerTensor {
  readonly op: string;
  readonly type: string;
  readonly phase: string;
  readonly io: Io;
  readonly slot: number;
  readonly step: number;
  readonly value: Num | null;
  readonly is_tensor: boolean;
}

/** The tensors of one cell, the greatest value first. */
export interface LayerTensors {
  readonly layer: string;
  readonly tensors: readonly LayerTensor[];
}

/**
 * A directory with event files. `name`: its path below the directory that was given.
 * `scalars`, `histograms` and `images`: tags. `problems`: files that are damaged.
 */
export interface SummaryLog {
  readonly number: number;
  readonly name: string;
  readonly path: string;
  readonly status: string;
  readonly last_step: number | null;
  readonly scalars: readonly string[];
  readonly histograms: readonly string[];
  readonly images: readonly string[];
  readonly texts: readonly LineageFact[];
  readonly lineage: readonly LineageFact[];
  readonly problems: readonly string[];
}

/** All logs of a server, in the order of their names. */
export interface SummaryLogs {
  readonly logs: readonly SummaryLog[];
}

/**
 * Histograms of a tag between common `edges`: for each of `steps` the `counts` of each bin. Of
 * very many steps some are left out.
 */
export interface TagHistograms {
  readonly tag: string;
  readonly steps: readonly number[];
  readonly edges: readonly number[];
  readonly counts: readonly (readonly number[])[];
}

/** The picture `at` a place of `steps`; `data` is Base64. */
export interface TagPicture {
  readonly tag: string;
  readonly steps: readonly number[];
  readonly at: number;
  readonly media_type: string;
  readonly data: string;
}
