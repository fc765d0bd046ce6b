import { computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import type { Notation } from "../text/numbers";
import { isTick, type Tick } from "./ticks";

/*
 * Settings of the user, for all runs; stored in this browser.
 */

export type Theme = "system" | "dark" | "light";

/** A value that survives a reload; `set` is the only way to change it. */
export interface Stored<T> extends ReadonlySignal<T> {
  readonly set: (value: T) => void;
}

/** A stored value, starting with what the browser has under `name` if that is valid. */
export function stored<T>(
  storage: Storage,
  name: string,
  start: T,
  isValid: (value: unknown) => value is T,
): Stored<T> {
  let first = start;
  try {
    const found: unknown = JSON.parse(storage.getItem(name) ?? "null");
    if (isValid(found)) first = found;
  } catch {
    storage.removeItem(name);
  }
  const value = signal(first);
  effect(() => {
    const text = JSON.stringify(value.value);
    try {
      storage.setItem(name, text);
    } catch {
      // With a full or forbidden storage the setting works, but does not survive a reload.
    }
  });
  return Object.assign(value, {
    set: (next: T) => {
      value.value = next;
    },
  });
}

const isTheme = (value: unknown): value is Theme =>
  value === "system" || value === "dark" || value === "light";
const isNotation = (value: unknown): value is Notation =>
  value === "fixed" || value === "scientific" || value === "short";
const isNumber = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value);
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const isCount = (value: unknown): value is number =>
  isNumber(value) && Number.isInteger(value) && value > 0;
const isCountOrNull = (value: unknown): value is number | null =>
  value === null || (isNumber(value) && Number.isInteger(value) && value >= 0);
const isTicks = (value: unknown): value is Tick[] => Array.isArray(value) && value.every(isTick);

export const theme = stored<Theme>(localStorage, "sonde.theme", "system", isTheme);
export const notation = stored<Notation>(localStorage, "sonde.notation", "short", isNotation);
export const digits = stored(localStorage, "sonde.digits", 5, isNumber);
export const leftWidth = stored(localStorage, "sonde.left", 268, isNumber);
export const rightWidth = stored(localStorage, "sonde.right", 356, isNumber);
export const lowerHeight = stored(localStorage, "sonde.lower", 270, isNumber);
export const follow = stored(localStorage, "sonde.follow", true, isBoolean);
export const stretched = stored(localStorage, "sonde.stretched", false, isBoolean);
/** Whether the vertical axis of the loss is logarithmic. */
export const logLoss = stored(localStorage, "sonde.logLoss", false, isBoolean);
/** What a cell of a heat map shows of its elements. */
export type CellBy = "mean" | "largest";
const isCellBy = (value: unknown): value is CellBy => value === "mean" || value === "largest";
export const cellBy = stored<CellBy>(localStorage, "sonde.cells", "largest", isCellBy);
/** Whether statistics are those of the slice on the screen, not of the whole tensor. */
export const sliceStatistics = stored(localStorage, "sonde.sliceStatistics", false, isBoolean);
/** Curves over steps: the statistic, its axis, and how much the lines are smoothed (0 to 0.99). */
const isText = (value: unknown): value is string => typeof value === "string";
export const curveStatistic = stored(localStorage, "sonde.curveStatistic", "", isText);
export const logCurve = stored(localStorage, "sonde.logCurve", false, isBoolean);
const isShare = (value: unknown): value is number => isNumber(value) && value >= 0 && value < 1;
export const smoothing = stored(localStorage, "sonde.smoothing", 0, isShare);
/** Whether the column of details is shown; "auto": where it has something to show. */
export type DetailsColumn = "auto" | "shown" | "folded";
const isDetailsColumn = (value: unknown): value is DetailsColumn =>
  value === "auto" || value === "shown" || value === "folded";
export const detailsColumn = stored<DetailsColumn>(
  localStorage,
  "sonde.details",
  "auto",
  isDetailsColumn,
);
/** How many steps one click runs, and of how many steps an op's values are kept. */
export const stepsToRun = stored(sessionStorage, "sonde.steps", 1, isCount);
export const stepsToKeep = stored(sessionStorage, "sonde.keep", 2, isCount);
/** The rank the controls act on; null: all ranks. */
export const controlledRank = stored<number | null>(
  sessionStorage,
  "sonde.controlledRank",
  null,
  isCountOrNull,
);
/** Ops and scopes ticked for a watchpoint; kept until the tab is closed. */
export const nodeTicks = stored<readonly Tick[]>(sessionStorage, "sonde.ticks", [], isTicks);

const systemIsDark = window.matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(systemIsDark.matches);
systemIsDark.addEventListener("change", (event) => {
  systemDark.value = event.matches;
});

export const isDark = computed(() =>
  theme.value === "system" ? systemDark.value : theme.value === "dark",
);
effect(() => {
  document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
});
