/** A comparison as src/sonde/compare/runs/report_data.py writes it; numbers JSON lacks are texts. */

export type Value = number | string | null;

export interface Source {
  readonly file: string;
  readonly line: number;
  readonly code: string;
}

interface TensorName {
  readonly op: string;
  readonly io: string;
  readonly slot: number;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly parameter: string | null;
}

export interface Distances {
  readonly max_abs_error: Value;
  readonly max_relative_error: Value;
  readonly mean_relative_error: Value;
  readonly cosine: Value;
  readonly max_ulp: Value;
  readonly within_1_permille: Value;
}

export interface Pair {
  readonly step: number;
  readonly order: number;
  readonly a: string;
  readonly b: string;
  readonly status: string;
  readonly error: Value;
  readonly input_error: Value;
  readonly allowed: Value;
  readonly type_a: string;
  readonly type_b: string;
  readonly kind: string;
  readonly phase: string;
  readonly how: string;
  readonly members_a: readonly string[];
  readonly members_b: readonly string[];
  readonly source_a: Source | null;
  readonly source_b: Source | null;
  readonly reads: readonly number[];
  readonly notes: readonly string[];
  readonly tensors: readonly {
    readonly a: TensorName;
    readonly b: TensorName;
    readonly error: Value;
    readonly layout: string | null;
    readonly problem: string | null;
  }[];
  /** Those of the tensor with the largest error. */
  readonly distances: Distances | null;
  /** Whether the op only moves values: a view, a copy. */
  readonly is_plumbing: boolean;
}

export interface ComparisonData {
  readonly verdict: string;
  readonly by: "values" | "statistics" | "both";
  readonly a: { readonly path: string; readonly writer: string | null; readonly ops: number };
  readonly b: { readonly path: string; readonly writer: string | null; readonly ops: number };
  readonly steps: readonly number[];
  readonly reasons: readonly string[];
  readonly notes: readonly string[];
  readonly first_divergence:
    | (Pick<
        Pair,
        | "step"
        | "order"
        | "a"
        | "b"
        | "source_a"
        | "source_b"
        | "phase"
        | "error"
        | "allowed"
        | "input_error"
        | "distances"
      > & {
        readonly cause: string;
        readonly confidence: string;
        readonly tensor_a: string;
        readonly tensor_b: string;
      })
    | null;
  readonly losses: readonly {
    readonly step: number;
    readonly a: Value;
    readonly b: Value;
    readonly agrees: boolean | null;
  }[];
  readonly parts: readonly {
    readonly step: number;
    readonly level: string;
    readonly name: string;
    readonly pairs: number;
    readonly error: Value;
    readonly status: string;
  }[];
  readonly pairs: readonly Pair[];
  readonly unpaired: readonly {
    readonly side: string;
    readonly op: string;
    readonly type: string;
    readonly reason: string;
  }[];
}

/** The pair whose details are shown, and whether the page scrolls to it. */
export interface Choice {
  readonly order: number | null;
  readonly isMoving: boolean;
}

export const STATUSES = [
  "diverged",
  "inherited",
  "rounding",
  "within",
  "equal",
  "incomparable",
  "not dumped",
];

export function statusColor(status: string): string {
  return `--status-${{ "not dumped": "equal", incomparable: "other" }[status] ?? status}`;
}

/** The last two parts of an op's name. */
export function short(name: string): string {
  return name.split("/").slice(-2).join("/");
}

export function sourceText(source: Source | null): string {
  return source === null ? "" : `${source.file}:${source.line}  ${source.code}`.trim();
}

export function tensorText({ op, io, slot, parameter }: TensorName): string {
  return parameter ?? `${op}:${io}.${slot}`;
}

/** Whether the pair is something a step begins with, not an op. */
export function isLeaf(pair: Pair): boolean {
  return ["parameter", "input", "constant"].includes(pair.kind);
}

/** Up to seven pairs whose values lead to this one, the pair, and up to four that read it. */
export function flowThrough(data: ComparisonData, here: Pair): readonly Pair[] {
  const byOrder = new Map(data.pairs.map((pair) => [pair.order, pair]));
  const before: Pair[] = [];
  for (let current: Pair | undefined = here; current !== undefined && before.length < 7;) {
    const inputs: Pair[] = current.reads
      .map((order) => byOrder.get(order))
      .filter((pair) => pair !== undefined);
    const flow = inputs.filter((pair) => !isLeaf(pair));
    current = (flow.length > 0 ? flow : inputs).sort((one, other) => other.order - one.order)[0];
    if (current !== undefined) before.unshift(current);
  }
  const after: Pair[] = [];
  for (let current: Pair | undefined = here; current !== undefined && after.length < 4;) {
    const from: number = current.order;
    current = data.pairs.find(
      (pair) =>
        pair.order > from &&
        pair.step === here.step &&
        !pair.is_plumbing &&
        pair.reads.includes(from),
    );
    if (current !== undefined) after.push(current);
  }
  return [...before, here, ...after];
}
