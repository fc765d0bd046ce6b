/** The part of the map of layers by steps that is on the screen, in steps and layers. */
export interface MapView {
  /** Steps `first` to `last`, and layers `top` to `bottom`; the last ones are excluded. */
  readonly first: number;
  readonly last: number;
  readonly top: number;
  readonly bottom: number;
}

/** The map as a whole. */
export type MapExtent = MapView;

const FEWEST_STEPS = 4;
const FEWEST_LAYERS = 1;

function clamped(
  low: number,
  high: number,
  least: number,
  most: number,
  fewest: number,
): readonly [number, number] {
  const size = Math.min(Math.max(high - low, Math.min(fewest, most - least)), most - least);
  const start = Math.min(Math.max(low, least), most - size);
  return [start, start + size];
}

/** The view inside the map. */
export function inside(view: MapView, whole: MapExtent): MapView {
  const [first, last] = clamped(view.first, view.last, whole.first, whole.last, FEWEST_STEPS);
  const [top, bottom] = clamped(view.top, view.bottom, whole.top, whole.bottom, FEWEST_LAYERS);
  return { first, last, top, bottom };
}

/** The view moved by a share of its size in each direction. */
export function panned(view: MapView, whole: MapExtent, x: number, y: number): MapView {
  const [steps, layers] = [(view.last - view.first) * x, (view.bottom - view.top) * y];
  return inside(
    {
      first: view.first + steps,
      last: view.last + steps,
      top: view.top + layers,
      bottom: view.bottom + layers,
    },
    whole,
  );
}

/** The view zoomed by a factor in each direction; the point at the shares `x` and `y` stays. */
export function zoomed(
  view: MapView,
  whole: MapExtent,
  factor: { readonly steps: number; readonly layers: number },
  x: number,
  y: number,
): MapView {
  const step = view.first + (view.last - view.first) * x;
  const layer = view.top + (view.bottom - view.top) * y;
  return inside(
    {
      first: step - (step - view.first) / factor.steps,
      last: step + (view.last - step) / factor.steps,
      top: layer - (layer - view.top) / factor.layers,
      bottom: layer + (view.bottom - layer) / factor.layers,
    },
    whole,
  );
}

export function isWhole(view: MapView, whole: MapExtent): boolean {
  return (
    view.first <= whole.first &&
    view.last >= whole.last &&
    view.top <= whole.top &&
    view.bottom >= whole.bottom
  );
}

/** Steps of about `count` labels of an axis from `first` to `last`: round numbers. */
export function axisSteps(first: number, last: number, count: number): readonly number[] {
  const rough = Math.max((last - first) / Math.max(count, 1), 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const distance = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough) ?? power;
  const found: number[] = [];
  for (let at = Math.ceil(first / distance) * distance; at < last; at += distance) found.push(at);
  return found;
}
