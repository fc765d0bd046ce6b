/** `profile.json` as src/sonde/profile/document.py writes it. */

export const PARTS = ["data", "forward", "backward", "optimizer", "collectives", "rest"] as const;

export type Part = (typeof PARTS)[number];

export interface Place {
  readonly file: string;
  readonly line: number;
  readonly function: string;
  readonly code: string;
}

export interface Module {
  readonly name: string;
  readonly kind: string;
  readonly forward: number;
  readonly backward: number;
  readonly own: number;
  readonly children: readonly Module[];
}

export interface Op {
  readonly op: string;
  readonly module: string;
  readonly phase: string;
  readonly place: Place | null;
  readonly shapes: string;
  readonly calls: number;
  readonly seconds: number;
  readonly python_seconds: number;
  readonly flops: number | null;
  readonly nbytes: number | null;
  readonly share_of_machine: number | null;
}

export interface Step {
  readonly number: number;
  readonly seconds: number;
  readonly kind: "bare" | "timed" | "named";
  readonly is_outlier: boolean;
  readonly parts: Readonly<Record<Part, number>> | null;
}

export interface Finding {
  readonly rule: string;
  readonly direction: string;
  readonly severity: string;
  readonly message: string;
  readonly advice: string;
  readonly gain: { readonly seconds: number; readonly share: number; readonly how: string };
  readonly place: Place | null;
  readonly evidence: unknown;
}

export interface Line {
  readonly place: Place;
  readonly forward: number;
  readonly backward: number;
  readonly optimizer: number;
  readonly other: number;
  readonly calls: number;
}

export interface Tried {
  readonly name: string;
  readonly verdict: string;
  readonly before: number | null;
  readonly after: number | null;
  readonly loss_difference: number | null;
  readonly place: Place | null;
  readonly note: string;
}

export interface Memory {
  readonly step: number;
  readonly peak: number;
  readonly peak_at: number;
  readonly peak_part: string;
  readonly resident: number;
  readonly timeline: readonly (readonly [number, number])[];
  readonly modules: Readonly<Record<string, number>>;
}

export interface Timeline {
  readonly step: number;
  readonly parts: readonly (readonly [Part, number, number])[];
  readonly ops: readonly (readonly [string, string, number, number])[];
}

export interface ProfileDocument {
  readonly program: readonly string[];
  readonly created: string;
  readonly versions: Readonly<Record<string, string>>;
  readonly rank: number;
  readonly ranks: number;
  readonly machine: {
    readonly processor: string;
    readonly threads: number;
    readonly flops: Readonly<Record<string, number>>;
    readonly bytes_per_second: number;
  };
  readonly summary: {
    readonly step_time: number;
    readonly profiled_step_time: number;
    readonly undisturbed_step_time: number | null;
    readonly parts: Readonly<Record<Part, number>>;
    readonly jitter: number;
    readonly outliers: number;
  };
  readonly steps: readonly Step[];
  readonly timeline: Timeline;
  readonly ops: readonly Op[];
  readonly modules: Module;
  readonly lines: readonly Line[];
  readonly memory: Memory | null;
  readonly findings: readonly Finding[];
  readonly worth_trying: readonly string[];
  readonly tried: readonly Tried[];
  readonly notes: readonly string[];
}

export function partName(part: Part): string {
  return part === "data" ? "waiting for data" : part;
}

/** The seconds of a step, as the sum of its parts; shares refer to it. */
export function totalOf(profile: ProfileDocument): number {
  return PARTS.reduce((sum, part) => sum + profile.summary.parts[part], 0) || 1;
}

/** The last two names of a file's path, and the line. */
export function placeText(place: Place | null): string {
  return place === null ? "" : `${place.file.split("/").slice(-2).join("/")}:${place.line}`;
}
