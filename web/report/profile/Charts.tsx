import type { JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { Chart } from "../Chart";
import type { Box, Dot } from "../marks";
import { bytes, extent, percent, time } from "../numbers";
import { hideTip, tipped } from "../tip";
import {
  PARTS,
  partName,
  totalOf,
  type Memory,
  type Module,
  type ProfileDocument,
  type Step,
  type Timeline,
} from "./document";

const MOST_STEPS = 400;
const KINDS = { bare: "not profiled", timed: "profiled", named: "run to learn names" };

function stepText(step: Step): string {
  const { parts } = step;
  const lines =
    parts === null
      ? []
      : PARTS.filter((part) => parts[part] > 0).map(
          (part) => `${partName(part)} ${time(parts[part])}`,
        );
  const outlier = step.is_outlier ? ", an outlier" : "";
  return [
    `step ${step.number}: ${time(step.seconds)}, ${KINDS[step.kind]}${outlier}`,
    ...lines,
  ].join("\n");
}

/** The time of every step; those that were profiled in their parts. */
export function StepChart({ steps: all }: { readonly steps: readonly Step[] }): JSX.Element {
  const steps = all.slice(-MOST_STEPS);
  // The first step and those run to learn names take far longer than the others: they are cut off.
  const usual = steps.slice(steps.length > 3 ? 1 : 0).filter((step) => step.kind !== "named");
  const top = extent((usual.length > 0 ? usual : steps).map((step) => step.seconds))[1] * 1.06;
  const gap = steps.length > 250 ? 0 : 0.08;
  const boxes: Box[] = [];
  const dots: Dot[] = [];
  for (const step of steps) {
    const [left, right, tip] = [step.number - 0.5 + gap, step.number + 0.5 - gap, stepText(step)];
    let low = 0;
    for (const part of PARTS) {
      const seconds = step.parts === null ? (part === "rest" ? step.seconds : 0) : step.parts[part];
      boxes.push({
        left,
        right,
        low,
        high: low + seconds,
        color: `--${part}`,
        opacity: step.parts === null ? 0.4 : 1,
        tip,
      });
      low += seconds;
    }
    if (step.is_outlier) dots.push({ x: step.number, y: top, radius: 2.5, color: "--text", tip });
  }
  const [first, last] = [steps[0]?.number ?? 0, steps.at(-1)?.number ?? 0];
  return (
    <Chart
      label="the time of the steps"
      height={190}
      x={{ low: first - 0.5, high: last + 0.5, isWhole: true }}
      y={{ low: 0, high: top || 1, text: time }}
      boxes={boxes}
      dots={dots}
    />
  );
}

/** One step: its parts above, its ops below. */
export function TimelineChart({ timeline }: { readonly timeline: Timeline }): JSX.Element {
  const plot = useRef<uPlot | null>(null);
  const end = Math.max(extent(timeline.parts.map(([, , stop]) => stop))[1], 1e-9);
  const modules = [...new Set(timeline.ops.map(([, module]) => module))];
  const hues = new Map(modules.map((name, place) => [name, (place * 47) % 360]));
  const parts = timeline.parts.map(([part, left, right]): Box => ({
    left,
    right,
    low: 2.2,
    high: 3,
    color: `--${part}`,
    label: part,
    tip: `${partName(part)}: ${time(right - left)}`,
  }));
  const ops = timeline.ops.map(([name, module, left, right]): Box => ({
    left,
    right,
    low: 0,
    high: 2,
    color: `hsl(${hues.get(module) ?? 0} 45% 48%)`,
    label: name,
    tip: `${name}: ${time(right - left)}\n${module}`,
  }));
  return (
    <>
      <div class="tools">
        <span class="quiet">
          step {timeline.step}: its parts above, its ops below, one colour per module. Wheel to
          zoom, drag to move.
        </span>
        <button type="button" onClick={() => plot.current?.setScale("x", { min: 0, max: end })}>
          whole step
        </button>
      </div>
      <Chart
        label="the parts and ops of one step"
        height={120}
        x={{ low: 0, high: end, text: time }}
        y={{ low: 0, high: 3, size: 0 }}
        boxes={[...parts, ...ops]}
        zoom="wheel"
        extend={(made) => (plot.current = made)}
      />
    </>
  );
}

/** What torch allocated in one step. */
export function MemoryChart({ memory }: { readonly memory: Memory | null }): JSX.Element {
  if (memory === null) return <p class="quiet">not recorded; --memory does</p>;
  const points = memory.timeline;
  if (points.length < 2) return <p class="quiet">nothing was allocated</p>;
  const [low, high] = extent([0, 1, ...points.map(([, size]) => size)]);
  const room = (high - low) * 0.06;
  return (
    <>
      <div class="quiet">
        Step {memory.step}: what torch allocated above its beginning. It peaks at{" "}
        {bytes(memory.peak)} after {time(memory.peak_at)}, in {memory.peak_part}.
      </div>
      <Chart
        label="memory in one step"
        height={170}
        x={{ low: 0, high: Math.max(points.at(-1)?.[0] ?? 0, 1e-9), text: time }}
        y={{ low: low < 0 ? low - room : 0, high: high + room, text: bytes, size: 72 }}
        lines={[
          {
            x: points.map(([at]) => at),
            y: points.map(([, size]) => size),
            color: "--accent",
            isStepped: true,
          },
        ]}
        dots={[
          {
            x: memory.peak_at,
            y: memory.peak,
            radius: 4,
            color: "--warn",
            tip: `peak: ${bytes(memory.peak)} after ${time(memory.peak_at)}`,
          },
        ]}
        zoom="select"
      />
    </>
  );
}

interface Cell {
  readonly module: Module;
  readonly left: number;
  readonly share: number;
  readonly level: number;
  readonly above: readonly string[];
}

const amount = (module: Module): number => module.forward + module.backward;
const labelOf = (module: Module): string => module.name + (module.kind ? ` ${module.kind}` : "");

function cellsOf(
  module: Module,
  left: number,
  share: number,
  level: number,
  above: readonly string[],
): readonly Cell[] {
  if (share < 0.0008) return [];
  const names = [...above, labelOf(module)];
  let at = left;
  const inside = module.children.flatMap((child) => {
    const part = amount(module) ? (share * amount(child)) / amount(module) : 0;
    const cells = cellsOf(child, at, part, level + 1, names);
    at += part;
    return cells;
  });
  return [{ module, left, share, level, above: names }, ...inside];
}

/** The modules as boxes inside each other, as wide as their time; a click opens one. */
export function ModuleFlame({ profile }: { readonly profile: ProfileDocument }): JSX.Element {
  const [path, setPath] = useState<readonly Module[]>([profile.modules]);
  const root = path.at(-1) ?? profile.modules;
  const total = totalOf(profile);
  const cells = cellsOf(root, 0, 1, 0, []);
  const open = (module: Module): void => {
    hideTip();
    setPath(module !== root ? [...path, module] : path.length > 1 ? path.slice(0, -1) : path);
  };
  return (
    <div
      class="flame"
      style={{ height: `${(extent(cells.map((cell) => cell.level))[1] + 1) * 21}px` }}
    >
      {cells.map(({ module, left, share, level, above }) => (
        <button
          key={above.join("/")}
          type="button"
          style={{
            left: `${100 * left}%`,
            width: `${100 * share}%`,
            top: `${level * 21}px`,
            background: module.name.startsWith("(")
              ? "var(--rest)"
              : `color-mix(in srgb, var(--backward) ${(100 * module.backward) / (amount(module) || 1)}%, var(--forward))`,
          }}
          onClick={() => open(module)}
          {...tipped(
            `${above.join(" / ")}\n${time(amount(module))} a step, ${percent(amount(module) / total)}\n` +
              `forward ${time(module.forward)}, backward ${time(module.backward)}, itself ${time(module.own)}`,
          )}
        >
          {labelOf(module)}
        </button>
      ))}
    </div>
  );
}
