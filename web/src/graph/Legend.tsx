import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { pairMarks } from "../compare/marks";
import { BOX_STATISTIC_NAMES } from "../state/place";
import { currentOrder } from "../state/store";
import { grouped } from "../text/numbers";
import type { PairStatus } from "../wire";
import { coloured, mixed, valueText } from "./colouring";
import type { Scene } from "./scene";

/** The statuses of pairs that are drawn as the same. */
const SAME: readonly PairStatus[] = ["equal", "within", "rounding"];

interface LegendProps {
  readonly scene: Scene;
  /** How many boxes were left out because there are too many. */
  readonly hidden: number;
}

/** What the colours and shapes mean that the graph has now. */
export function Legend({ scene, hidden }: LegendProps): JSX.Element {
  const shown = useMemo(() => kinds(scene), [scene]);
  const compared = new Set([...pairMarks.value.values()].map((mark) => mark.status));
  const entries: readonly (readonly [string, string, boolean])[] = [
    ["is-forward", "forward", shown.has("forward")],
    ["is-backward", "backward", shown.has("backward")],
    ["is-optimizer", "optimizer", shown.has("optimizer")],
    ["is-parameter", "parameter", shown.has("parameter")],
    ["is-hit", "hit", shown.has("hit")],
    ["is-origin", "origin", shown.has("origin")],
    ["is-finding", "finding", shown.has("finding")],
    ["is-current", "current op", currentOrder.value !== null],
    ["is-to-come", "still to run", currentOrder.value !== null],
    ["is-same", "same", SAME.some((status) => compared.has(status))],
    ["is-inherited", "inherited", compared.has("inherited")],
    ["is-diverged", "diverged", compared.has("diverged")],
  ];
  return (
    <div class="legend">
      {coloured.value.by === "" ? null : <Scale />}
      {entries
        .filter(([, , isShown]) => isShown)
        .map(([name, text]) => (
          <span key={name}>
            <span class={`swatch ${name}`} /> {text}
          </span>
        ))}
      <span class="spacer" />
      {hidden > 0 && (
        <span class="left-out" title="The list on the left has all nodes">
          {grouped(hidden)} boxes not drawn
        </span>
      )}
    </div>
  );
}

function kinds({ boxes }: Scene): ReadonlySet<string> {
  const found = new Set<string>();
  for (const { node } of boxes) {
    if (node.what === "outside") continue;
    found.add(node.kind === "op" ? node.phase : node.kind);
    if (node.hits > 0) found.add("hit");
    if (node.has_origin) found.add("origin");
    if (node.findings.length > 0) found.add("finding");
  }
  return found;
}

/** The colours of values, from the least to the largest. */
function Scale(): JSX.Element {
  const { by, least, most, step, problem } = coloured.value;
  const name = by === "" ? "" : BOX_STATISTIC_NAMES[by];
  if (problem !== "") return <span class="warn-text">{`${name}: ${problem}`}</span>;
  const stops = [0, 0.25, 0.5, 0.75, 1].map(mixed).join(", ");
  const [low, high] = by === "zeros" ? [0, 1] : [least, most];
  return (
    <span
      title={
        by === "time"
          ? "A scope has the sum of the times inside it"
          : "A scope has the largest value inside it"
      }
    >
      {name}
      {step === null ? "" : ` in step ${step}`} {valueText(low)}{" "}
      <span class="colour-scale" style={{ background: `linear-gradient(90deg, ${stops})` }} />{" "}
      {valueText(high)}
    </span>
  );
}
