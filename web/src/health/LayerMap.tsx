import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, type LayersRequest, type RankAt } from "../load/api";
import { useResource } from "../load/resource";
import { go, place, runs } from "../state/store";
import { runTitle } from "../text/names";
import { counted } from "../text/numbers";
import type { LayerCells, LayerStatisticView } from "../wire";
import { CellPanel, type ChosenCell } from "./CellPanel";
import { MAP_HEIGHT, MapCanvas } from "./MapCanvas";
import { MapLegend } from "./MapLegend";
import { decoded } from "./mapColours";
import { pictureOf, useOverview, wholeOf, type Cell } from "./mapPicture";
import type { MapView } from "./mapView";

interface LayerMapProps {
  readonly at: RankAt;
  readonly statistics: readonly LayerStatisticView[];
  /** Changes when the run has more steps. */
  readonly version: string;
}

const NAMES: Readonly<Record<string, string>> = {
  grad_norm: "gradient norm",
  activation_rms: "activation rms",
  zero_fraction: "zero fraction",
  weight_norm: "weight norm",
  update_ratio: "update ratio",
  non_finite_count: "NaN and Inf",
};

/** A statistic of all layers by steps. The browser has the cells on the screen, and no others. */
export function LayerMap({ at, statistics, version }: LayerMapProps): JSX.Element {
  const wanted = place.value.layerStatistic;
  const statistic = statistics.find(({ name }) => name === wanted) ?? statistics[0];
  const name = statistic?.name ?? "";
  const withRun = runs.value.some(({ id }) => id === place.value.layersWith)
    ? place.value.layersWith
    : "";
  const [view, setView] = useState<MapView | null>(null);
  const [width, setWidth] = useState(600);
  const [chosen, setChosen] = useState<ChosenCell | null>(null);
  const subject = { ...at, statistic: name, with_run: withRun === "" ? null : withRun };
  useEffect(() => {
    setView(null);
    setChosen(null);
  }, [at.run, at.rank, name]);
  const request: LayersRequest = {
    ...subject,
    first: view === null ? null : Math.floor(view.first),
    last: view === null ? null : Math.ceil(view.last) - 1,
    top: view === null ? 0 : Math.floor(view.top),
    bottom: view === null ? null : Math.ceil(view.bottom),
    rows: MAP_HEIGHT,
    columns: Math.max(Math.round(width), 100),
  };
  const { data, error } = useResource(
    subject,
    `${version} ${JSON.stringify(request)}`,
    (_subject, signal) => api.layers(request, signal),
  );
  const picture = useMemo(() => (data === null ? null : pictureOf(data)), [data]);
  const overview = useOverview(picture);
  const title = NAMES[name] ?? name;
  return (
    <section class="layer-map" aria-label="Layers by steps">
      <h4 class="with-choice">
        <span title={statistic?.description}>Layers by steps: {title}</span>
        <span class="chart-head">
          <label class="check">
            statistic{" "}
            <select
              value={name}
              onChange={(event) => go({ layerStatistic: event.currentTarget.value })}
            >
              {statistics.map((each) => (
                <option key={each.name} value={each.name} title={each.description}>
                  {NAMES[each.name] ?? each.name}
                </option>
              ))}
            </select>
          </label>
          <OtherRun run={at.run} chosen={withRun} />
        </span>
      </h4>
      {error !== null && <p class="error-line">{error}</p>}
      {picture === null ? (
        <p class="quiet note">{error === null ? "Reading the statistics of all steps …" : ""}</p>
      ) : (
        <>
          <MapCanvas
            picture={picture}
            overview={overview}
            view={view ?? wholeOf(picture.data)}
            label={`${title} of ${counted(picture.data.total_layers, "layer")} by steps`}
            onView={setView}
            onWidth={setWidth}
            onCell={(cell) => void chooseCell(request, cell).then(setChosen)}
          />
          <MapLegend picture={picture} isCompared={withRun !== ""} onWhole={() => setView(null)} />
        </>
      )}
      {chosen !== null && (
        <CellPanel at={at} statistic={name} title={title} cell={chosen} version={version} />
      )}
    </section>
  );
}

/** Chooses the run with which the map is compared cell by cell. */
function OtherRun({
  run,
  chosen,
}: {
  readonly run: string;
  readonly chosen: string;
}): JSX.Element | null {
  const others = runs.value.filter(({ id }) => id !== run);
  if (others.length === 0) return null;
  return (
    <label class="check">
      compared with{" "}
      <select value={chosen} onChange={(event) => go({ layersWith: event.currentTarget.value })}>
        <option value="">nothing</option>
        {others.map(({ id }) => (
          <option key={id} value={id}>
            {runTitle(runs.value, id)}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The steps of a cell, and its layer: of several the one with the greatest value. */
async function chooseCell(
  request: LayersRequest,
  { data, row, column }: Cell & { readonly data: LayerCells },
): Promise<ChosenCell | null> {
  const first = data.first + column * data.steps_per_column;
  const last = Math.min(first + data.steps_per_column - 1, data.last_step);
  const top = data.top + row * data.layers_per_row;
  const found = { first, last };
  const bottom = Math.min(top + data.layers_per_row, data.total_layers);
  if (data.layers_per_row === 1) return { ...found, layer: data.layers[row] ?? "", number: top };
  const { rows, ...part } = { ...request, ...found, top, bottom };
  const each = await api.layers({ ...part, rows: bottom - top, columns: 1, with_run: null });
  const values = [...decoded(each.cells)].map((value) => (Number.isNaN(value) ? Infinity : value));
  const place = values.indexOf(Math.max(...values));
  return rows === 0 ? null : { ...found, layer: each.layers[place] ?? "", number: top + place };
}
