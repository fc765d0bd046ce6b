import type { JSX } from "preact";
import { bytes, percent, rate, time } from "../numbers";
import { numbers, Table, type Column } from "../Table";
import {
  placeText,
  totalOf,
  type Line,
  type Module,
  type Op,
  type Place,
  type ProfileDocument,
  type Tried,
} from "./document";

function PlaceCell({ place }: { readonly place: Place | null }): JSX.Element | null {
  if (place === null) return null;
  return (
    <span class="mono" title={`${place.file}:${place.line}\n${place.code}`}>
      {placeText(place)}
      {place.code && <span class="code">{place.code}</span>}
    </span>
  );
}

function placeColumn<Row extends { readonly place: Place | null }>(name: string): Column<Row> {
  return {
    name,
    value: (row) => placeText(row.place),
    show: (row) => <PlaceCell place={row.place} />,
  };
}

const searchedPlace = (place: Place | null): string =>
  place === null ? "" : `${place.file}:${place.line} ${place.code}`;
/** "Default/network-Net/0-Linear" as "network.0". */
const dotted = (scope: string): string =>
  scope
    .split("/")
    .slice(1)
    .map((part) => part.split("-")[0])
    .join(".");

export function TriedTable({ tried }: { readonly tried: readonly Tried[] }): JSX.Element {
  const columns: readonly Column<Tried>[] = [
    { name: "variant", value: (row) => row.name },
    { name: "result", value: (row) => row.verdict },
    numbers("before", (row) => row.before, time),
    numbers("after", (row) => row.after, time),
    numbers(
      "faster by",
      (row) => (row.before !== null && row.after ? row.before / row.after : null),
      (ratio) => `${ratio.toFixed(2)} x`,
    ),
    numbers("loss difference", (row) => row.loss_difference, percent),
    placeColumn("where"),
    { name: "note", value: (row) => row.note, look: "wrap" },
  ];
  return <Table rows={tried} columns={columns} sort={4} isDescending />;
}

export function OpTable({ profile }: { readonly profile: ProfileDocument }): JSX.Element {
  const total = totalOf(profile);
  const columns: readonly Column<Op>[] = [
    { name: "op", value: (row) => row.op, look: "wrap" },
    { name: "phase", value: (row) => row.phase },
    numbers("own time", (row) => row.seconds, time, "a step's time in this op, without Python"),
    numbers("share", (row) => row.seconds / total, percent),
    numbers(
      "Python",
      (row) => row.python_seconds,
      time,
      "the time between the op before and this one",
    ),
    numbers(
      "calls",
      (row) => row.calls,
      (calls) => calls.toFixed(calls % 1 ? 1 : 0),
    ),
    numbers("FLOP", (row) => row.flops, rate),
    numbers("bytes", (row) => row.nbytes, bytes),
    numbers(
      "of machine",
      (row) => row.share_of_machine,
      (share) => percent(Math.min(share, 9.99)),
      "the time this machine needs for the FLOP or the bytes, over the own time",
    ),
    { name: "shapes", value: (row) => row.shapes, look: "wrap" },
    { name: "module", value: (row) => dotted(row.module), look: "wrap" },
    placeColumn("line"),
  ];
  const searched = (row: Op): string =>
    [row.op, row.phase, row.shapes, dotted(row.module), searchedPlace(row.place)].join(" ");
  return <Table rows={profile.ops} columns={columns} sort={2} isDescending searched={searched} />;
}

interface ModuleRow extends Module {
  readonly path: string;
}

/** The step first, then every module with the path that the program knows it by. */
function moduleRows(profile: ProfileDocument): readonly ModuleRow[] {
  const inside = (module: Module, above: string): readonly ModuleRow[] => {
    const path = above === "" ? module.name : `${above}.${module.name}`;
    return [{ ...module, path }, ...module.children.flatMap((child) => inside(child, path))];
  };
  const step = { ...profile.modules, name: "step", path: "step" };
  return [step, ...profile.modules.children.flatMap((child) => inside(child, ""))];
}

export function ModuleTable({ profile }: { readonly profile: ProfileDocument }): JSX.Element {
  const total = totalOf(profile);
  const held = Object.entries(profile.memory?.modules ?? {}).map(
    ([scope, size]) => [dotted(scope), size] as const,
  );
  const isInside = (row: ModuleRow, scope: string): boolean =>
    row.path === "step" || scope === row.path || scope.startsWith(`${row.path}.`);
  const memory = (row: ModuleRow): number =>
    held.reduce((sum, [scope, size]) => sum + (isInside(row, scope) ? size : 0), 0);
  const columns: readonly Column<ModuleRow>[] = [
    { name: "module", value: (row) => row.path, look: "wrap" },
    { name: "kind", value: (row) => row.kind },
    numbers("time", (row) => row.forward + row.backward, time),
    numbers("share", (row) => (row.forward + row.backward) / total, percent),
    numbers("forward", (row) => row.forward, time),
    numbers("backward", (row) => row.backward, time),
    numbers("itself", (row) => row.own, time, "without the modules inside it"),
    ...(profile.memory === null ? [] : [numbers("memory at the peak", memory, bytes)]),
  ];
  return (
    <Table
      rows={moduleRows(profile)}
      columns={columns}
      sort={2}
      isDescending
      searched={(row) => `${row.path} ${row.kind}`}
    />
  );
}

export function LineTable({ profile }: { readonly profile: ProfileDocument }): JSX.Element {
  const total = totalOf(profile);
  const seconds = (row: Line): number => row.forward + row.backward + row.optimizer + row.other;
  const columns: readonly Column<Line>[] = [
    placeColumn("line"),
    { name: "function", value: (row) => row.place.function },
    numbers("time", seconds, time),
    numbers("share", (row) => seconds(row) / total, percent),
    numbers("forward", (row) => row.forward, time),
    numbers("backward", (row) => row.backward, time),
    numbers("optimizer", (row) => row.optimizer, time),
    numbers("other", (row) => row.other, time, "loading data, and Python while no op runs"),
    numbers(
      "ops",
      (row) => row.calls,
      (calls) => calls.toFixed(0),
    ),
  ];
  return (
    <Table
      rows={profile.lines}
      columns={columns}
      sort={2}
      isDescending
      searched={(row) => `${searchedPlace(row.place)} ${row.place.function}`}
    />
  );
}
