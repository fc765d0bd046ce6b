import type { JSX } from "preact";
import type { RunView } from "../wire";
import { api, type TensorAt } from "../load/api";
import { runTitle } from "../text/names";
import type { Against, Io } from "../state/place";
import { useResource } from "../load/resource";
import { go, graph, place, rank, run, runs } from "../state/store";
import { Icon } from "../parts/Icon";
import { OpNameField } from "./OpNameField";
import { previousStep } from "./previousStep";

export const SAME: Against = { step: null, op: null, io: null, slot: null, rank: null, run: null };

/** Whether `against` is complete: the name of another tensor may still be missing. */
export function isComparing(against: Against | null): against is Against {
  return against !== null && against.op !== "";
}

function choiceOf(against: Against | null): string {
  if (against === null) return "";
  if (against.run !== null) return `run:${against.run}`;
  if (against.op !== null) return "op:";
  if (against.rank !== null) return `rank:${against.rank}`;
  return against.step === null ? "" : `step:${against.step}`;
}

interface CompareChoiceProps {
  readonly at: TensorAt;
  readonly steps: readonly number[];
  readonly shown: number | null;
}

/** Chooses what a tensor is compared with: another step, rank or run, or another tensor. */
export function CompareChoice({ at, steps, shown }: CompareChoiceProps): JSX.Element {
  const { against } = place.value;
  const current = run.value;
  const now = at.step ?? shown;
  const previous = previousStep(steps, now, current?.kind === "live");
  const choose = (value: string): void => {
    const [kind, ...rest] = value.split(":");
    const target = rest.join(":");
    const put = (chosen: Against | null): void =>
      go({ against: chosen, compared: "", comparedRow: 0 });
    if (kind === "step") put({ ...SAME, step: Number(target) });
    else if (kind === "rank") put({ ...SAME, rank: Number(target), step: at.step });
    else if (kind === "run") put({ ...SAME, run: target, step: at.step });
    else if (kind === "op") put({ ...SAME, op: "", step: at.step });
    else put(null);
  };
  return (
    <>
      <select
        aria-label="Compare with"
        class={against === null ? "" : "active"}
        value={choiceOf(against)}
        onChange={(event) => choose(event.currentTarget.value)}
      >
        <option value="">compare with…</option>
        {previous !== null && (
          <option value={`step:${previous}`}>previous step ({previous})</option>
        )}
        {steps
          .filter((each) => each !== previous && each !== now)
          .map((each) => (
            <option key={each} value={`step:${each}`}>
              step {each}
            </option>
          ))}
        {against?.step != null && against.step !== previous && !steps.includes(against.step) && (
          <option value={`step:${against.step}`}>step {against.step}</option>
        )}
        <Elsewhere at={at} current={current} />
        <option value="op:">another tensor…</option>
      </select>
      {against?.op != null && <OtherTensor against={against} />}
      {against !== null && (
        <button
          type="button"
          class="icon"
          aria-label="Stop comparing"
          title="Stop comparing"
          onClick={() => choose("")}
        >
          <Icon name="close" />
        </button>
      )}
    </>
  );
}

/** The same tensor of other ranks and of other runs. */
function Elsewhere({ at, current }: { at: TensorAt; current: RunView | null }): JSX.Element {
  const others = runs.value
    .filter((each) => each.id !== current?.id)
    .sort((a, b) => Number(b.id === current?.peer) - Number(a.id === current?.peer));
  return (
    <>
      {(current?.ranks ?? [])
        .filter((each) => each.rank !== at.rank)
        .map((each) => (
          <option key={each.rank} value={`rank:${each.rank}`}>
            rank {each.rank}
          </option>
        ))}
      {others.map((each) => (
        <option key={each.id} value={`run:${each.id}`}>
          run {runTitle(runs.value, each.id)}
        </option>
      ))}
    </>
  );
}

/** The name of another tensor, with the server's suggestions. */
function OtherTensor({ against }: { against: Against }): JSX.Element {
  const put = (op: string, io: Io, slot: number): void =>
    go({ against: { ...against, op, io, slot }, comparedRow: 0 });
  return (
    <>
      <OpNameField
        label="Name of the other op"
        class="other-op"
        placeholder="name of an op"
        title={against.op ?? ""}
        value={against.op ?? ""}
        run={against.run}
        onDone={(op) => put(op, "output", 0)}
      />
      {against.op !== null && against.op !== "" && (
        <OtherSlot
          against={against}
          op={against.op}
          onChoose={(io, slot) => put(against.op ?? "", io, slot)}
        />
      )}
    </>
  );
}

interface OtherSlotProps {
  readonly against: Against;
  readonly op: string;
  readonly onChoose: (io: Io, slot: number) => void;
}

function OtherSlot({ against, op, onChoose }: OtherSlotProps): JSX.Element {
  const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
  const id = against.run ?? currentRun?.id ?? "";
  const number = against.rank ?? currentRank?.rank ?? 0;
  const graphId = against.run === null ? (currentGraph?.id ?? null) : null;
  const { data } = useResource(
    { run: id, rank: number, graph: graphId, view: "everything", name: op },
    0,
    api.op,
  );
  const value = `${against.io ?? "output"} ${against.slot ?? 0}`;
  const slots = [
    ...(data?.node.outputs ?? []).map((_, slot) => `output ${slot}`),
    ...(data?.node.inputs ?? []).map((_, slot) => `input ${slot}`),
  ];
  return (
    <select
      aria-label="Input or output of the other op"
      value={value}
      onChange={(event) => {
        const [io, slot] = event.currentTarget.value.split(" ");
        onChoose(io === "input" ? "input" : "output", Number(slot));
      }}
    >
      {(slots.includes(value) ? slots : [value, ...slots]).map((each) => (
        <option key={each} value={each}>
          {each}
        </option>
      ))}
    </select>
  );
}
