import type { Axis } from "../Chart";
import { duration, extent, plainText, value } from "../numbers";

/** A study as src/sonde/tune/store/listing.py lists it. */
export interface Study {
  readonly study: string;
  readonly target: string;
  readonly goal: "minimize" | "maximize";
  readonly best: number | null;
  readonly trials: readonly Trial[];
  readonly parameters: readonly Parameter[];
  readonly importance: readonly (readonly [string, number])[];
  readonly search: { readonly tuner?: string; readonly pruner?: string; readonly command?: string };
}

export interface Trial {
  readonly number: number;
  readonly state: string;
  readonly value: number | null;
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly seconds: number | null;
  readonly reason: string;
  readonly origin: {
    readonly op: string;
    readonly file: string;
    readonly line: number;
    readonly code: string;
  } | null;
  readonly command: string;
  readonly course: readonly (readonly [number, number])[];
}

export interface Parameter {
  readonly name: string;
  readonly kind: string;
  readonly low: number | null;
  readonly high: number | null;
  readonly log: boolean;
  readonly choices: readonly unknown[];
}

export interface FinishedTrial extends Trial {
  readonly value: number;
}

export function finished(study: Study): readonly FinishedTrial[] {
  return study.trials.filter((trial): trial is FinishedTrial => trial.value !== null);
}

/** Whether a trial ended without a usable value. */
export function isBad(trial: Trial): boolean {
  return ["diverged", "failed", "timeout"].includes(trial.state);
}

export function stateColor(state: string): string {
  const colors: Record<string, string> = {
    finished: "--accent",
    pruned: "--warn",
    diverged: "--bad",
    failed: "--bad",
    timeout: "--bad",
  };
  return colors[state] ?? "--quiet";
}

/** Everything about a trial, for the text beside the pointer. */
export function described(study: Study, trial: Trial): string {
  const lines = [`trial ${trial.number}: ${trial.state}`];
  if (trial.value !== null) lines.push(`${study.target} ${value(trial.value)}`);
  for (const [name, given] of Object.entries(trial.parameters))
    lines.push(`${name} ${value(given)}`);
  if (trial.seconds !== null) lines.push(duration(trial.seconds));
  if (trial.reason) lines.push(trial.reason);
  return lines.join("\n");
}

/** Whether values spread over more than two powers of ten. */
export function wantsLog(values: readonly number[]): boolean {
  const [low, high] = extent(values);
  return values.length > 1 && low > 0 && high / low > 100;
}

/** An axis with some room around the values. */
export function axisAround(values: readonly number[], isLog: boolean): Axis {
  const [low, high] = extent(values);
  if (isLog) return { low: low / 1.15, high: high * 1.15, isLog };
  const room = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
  return { low: low - room, high: high + room };
}

/** The axis of a parameter; the choices of a list are the numbers from 0 on. */
export function parameterAxis(parameter: Parameter): Axis {
  const { choices } = parameter;
  if (parameter.kind === "choice") {
    return {
      low: -0.3,
      high: choices.length - 0.7,
      ticks: choices.map((_, place) => place),
      text: (place) => value(choices[place]),
    };
  }
  const [low, high] = [parameter.low ?? 0, parameter.high ?? 1];
  if (parameter.log)
    return { low: low === high ? low / 2 : low, high: low === high ? high * 2 : high, isLog: true };
  const room = low === high ? Math.abs(low) || 1 : 0;
  return { low: low - room, high: high + room };
}

/** The number that stands for a parameter's value on its axis; undefined if the trial has none. */
export function onAxis(parameter: Parameter, trial: Trial): number | undefined {
  const given = trial.parameters[parameter.name];
  if (given === undefined) return undefined;
  return parameter.kind === "choice"
    ? parameter.choices.findIndex((choice) => plainText(choice) === plainText(given))
    : Number(given);
}

// Viridis with its dark end lifted, from worse to better, readable on light and dark ground.
const RAMP = [
  [140, 70, 175],
  [88, 100, 185],
  [48, 128, 158],
  [34, 168, 132],
  [122, 209, 81],
  [220, 205, 50],
];

export function rampColor(share: number): string {
  const place = Math.min(1, Math.max(0, share)) * (RAMP.length - 1);
  const index = Math.min(RAMP.length - 2, Math.floor(place));
  const [from, to] = [RAMP[index] ?? [], RAMP[index + 1] ?? []];
  return `rgb(${from.map((each, channel) => Math.round(each + ((to[channel] ?? each) - each) * (place - index))).join(",")})`;
}
