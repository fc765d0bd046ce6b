import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { api, type RankAt } from "../load/api";
import { useResource } from "../load/resource";
import { Chart } from "../parts/Chart";
import { logLoss } from "../state/preferences";
import { go, openTensor } from "../state/store";
import { shortName } from "../text/names";
import { brief, grouped } from "../text/numbers";
import type { LayerCells, LayerTensor } from "../wire";
import { cellText, decoded } from "./mapColours";

/** A layer, its place in the map, and the steps of a cell. */
export interface ChosenCell {
  readonly layer: string;
  readonly number: number;
  readonly first: number;
  readonly last: number;
}

interface CellPanelProps {
  readonly at: RankAt;
  readonly statistic: string;
  readonly title: string;
  readonly cell: ChosenCell;
  readonly version: string;
}

const POINTS = 1000;

/** What a cell of the map consists of: the course of its layer, and the tensors behind it. */
export function CellPanel({ at, statistic, title, cell, version }: CellPanelProps): JSX.Element {
  const { layer, number, first, last } = cell;
  const course = useResource({ ...at, statistic, number }, version, (_request, signal) =>
    api.layers(
      {
        ...at,
        statistic,
        first: null,
        last: null,
        top: number,
        bottom: number + 1,
        rows: 1,
        columns: POINTS,
        with_run: null,
      },
      signal,
    ),
  );
  const tensors = useResource({ ...at, statistic, layer, first, last }, "", api.layerTensors);
  const steps =
    first === last ? `step ${grouped(first)}` : `steps ${grouped(first)} to ${grouped(last)}`;
  return (
    <section class="cell-panel" aria-label="The chosen cell">
      <h4>
        {layer} <span class="quiet">· {steps}</span>
      </h4>
      {course.data !== null && <Course data={course.data} title={title} marked={first} />}
      {tensors.error !== null && <p class="error-line">{tensors.error}</p>}
      {tensors.data !== null && (
        <table class="cell-tensors">
          <thead>
            <tr>
              <th scope="col">tensor</th>
              <th scope="col">phase</th>
              <th scope="col">step</th>
              <th scope="col">value</th>
              <th scope="col">open</th>
            </tr>
          </thead>
          <tbody>
            {tensors.data.tensors.map((each) => (
              <TensorRow key={`${each.op} ${each.io} ${each.slot}`} tensor={each} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function TensorRow({ tensor }: { readonly tensor: LayerTensor }): JSX.Element {
  const { op, io, slot, step } = tensor;
  return (
    <tr>
      <td title={op}>
        {shortName(op)} <span class="quiet">{`${io} ${slot}`}</span>
      </td>
      <td>{tensor.phase}</td>
      <td class="number">{grouped(step)}</td>
      <td class="number">{tensor.value === null ? "–" : brief(tensor.value)}</td>
      <td>
        {tensor.is_tensor ? (
          <>
            <button
              type="button"
              class="link"
              title={`${op} in step ${step}`}
              onClick={() => openTensor({ op, io, slot, step })}
            >
              tensor
            </button>{" "}
            <button
              type="button"
              class="link"
              title={`Statistics of ${op} over all steps`}
              onClick={() => {
                openTensor({ op, io, slot, step });
                go({ mode: "curve" });
              }}
            >
              over steps
            </button>
          </>
        ) : (
          <span class="quiet">only its norm is recorded</span>
        )}
      </td>
    </tr>
  );
}

/** The statistic of the layer over all steps. */
function Course({
  data,
  title,
  marked,
}: {
  readonly data: LayerCells;
  readonly title: string;
  readonly marked: number;
}): JSX.Element {
  const { steps, values, bad, words } = useMemo(() => courseOf(data), [data]);
  return (
    <Chart
      steps={steps}
      series={[{ label: title, colour: "one", values, words }]}
      bad={bad}
      marks={[{ step: marked, text: "▾", isStrong: false }]}
      height={130}
      label={`${title} of ${data.layers[0] ?? ""} by step`}
      isLog={logLoss.value}
    />
  );
}

interface CourseLine {
  readonly steps: readonly number[];
  readonly values: readonly (number | null)[];
  /** Steps whose value is not finite. */
  readonly bad: readonly number[];
  /** The texts of values that are not finite. */
  readonly words: readonly (string | null)[];
}

/** The values of a map with one row, by step; steps without a value are left out. */
export function courseOf(data: LayerCells): CourseLine {
  const known = [...decoded(data.cells)]
    .map((value, at) => ({ step: data.first + at * data.steps_per_column, value }))
    .filter(({ value }) => value !== -Infinity);
  return {
    steps: known.map(({ step }) => step),
    values: known.map(({ value }) => (Number.isFinite(value) ? value : null)),
    bad: known.filter(({ value }) => !Number.isFinite(value)).map(({ step }) => step),
    words: known.map(({ value }) => (Number.isFinite(value) ? null : cellText(value))),
  };
}
