import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import type { ListedNode, OpTensor, TensorType } from "../wire";
import { api, type TensorAt } from "../state/api";
import { lastPart, runTitle, shortName } from "../state/names";
import { typeText, type Notation } from "../state/numbers";
import type { Against, TensorMode } from "../state/place";
import { digits, notation } from "../state/preferences";
import { go, graph, openTensor, place, rank, refreshes, run, runs, selectOp } from "../state/store";
import { isAborted } from "../state/toasts";
import { Icon } from "../parts/Icon";
import { defaultIndex, movedIndex, type Plane } from "./slices";
import { previousStep } from "./steps";

export const SAME: Against = { step: null, op: null, io: null, slot: null, rank: null, run: null };

interface ToolsProps {
  readonly at: TensorAt;
  readonly type: TensorType | null;
  readonly tensors: readonly OpTensor[];
  readonly steps: readonly number[];
  readonly plane: Plane | null;
  readonly indexProblem: string | null;
}

/** The lines above a tensor: which one, which step, which plane, how it is shown. */
export function TensorTools({ at, type, tensors, steps, plane, indexProblem }: ToolsProps): JSX.Element {
  return (
    <div class="tensor-tools">
      <div class="toolbar">
        <button type="button" class="link name" title={`${at.op}; show it in the graph`} onClick={() => selectOp(at.op, { tab: "graph" })}>
          {shortName(at.op)}
        </button>
        <SlotChoice at={at} tensors={tensors} />
        <StepChoice steps={steps} />
        {rank.value?.state === "running" && (
          <button type="button" class="small" title="The training runs; values are fetched when you ask" onClick={() => (refreshes.value += 1)}>
            refresh
          </button>
        )}
        <span class="spacer" />
        <a class="button small" href={api.fileAddress(run.value?.id ?? "", at)} download={`${lastPart(at.op)}.${at.io}.${at.slot}.npy`} title="Download as .npy">
          <Icon name="down" /> .npy
        </a>
      </div>
      <div class="toolbar">
        <ModeChoice />
        {place.value.mode !== "curve" && <CompareChoice at={at} steps={steps} />}
        <span class="spacer" />
        <FormatChoice />
      </div>
      {place.value.mode !== "curve" && type !== null && <IndexField type={type} plane={plane} problem={indexProblem} />}
    </div>
  );
}

function SlotChoice({ at, tensors }: { at: TensorAt; tensors: readonly OpTensor[] }): JSX.Element {
  const value = `${at.io} ${at.slot}`;
  const isListed = tensors.some((each) => each.io === at.io && each.slot === at.slot);
  return (
    <select
      aria-label="Input or output"
      value={value}
      onChange={(event) => {
        const [io, slot] = event.currentTarget.value.split(" ");
        openTensor(at.op, io === "input" ? "input" : "output", Number(slot), at.step);
      }}
    >
      {!isListed && <option value={value}>{value}</option>}
      {tensors.map((each) => (
        <option key={`${each.io} ${each.slot}`} value={`${each.io} ${each.slot}`}>
          {each.io} {each.slot} {typeText(each.type)}
        </option>
      ))}
    </select>
  );
}

function StepChoice({ steps }: { steps: readonly number[] }): JSX.Element {
  const { step } = place.value;
  const all = step !== null && !steps.includes(step) ? [...steps, step].sort((a, b) => a - b) : steps;
  return (
    <select aria-label="Step" value={step === null ? "" : String(step)} onChange={(event) => go({ step: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })}>
      <option value="">latest step</option>
      {all.map((each) => (
        <option key={each} value={String(each)}>
          step {each}
        </option>
      ))}
    </select>
  );
}

const MODES: readonly (readonly [TensorMode, string])[] = [
  ["table", "table"],
  ["heat", "heat map"],
  ["curve", "over steps"],
];

function ModeChoice(): JSX.Element {
  return (
    <div class="segments" role="tablist" aria-label="How the tensor is shown">
      {MODES.map(([mode, text]) => (
        <button key={mode} type="button" role="tab" aria-selected={place.value.mode === mode} onClick={() => go({ mode })}>
          {text}
        </button>
      ))}
    </div>
  );
}

const MOST_DIGITS = 12;

function FormatChoice(): JSX.Element {
  const isNotation = (text: string): text is Notation => text === "short" || text === "fixed" || text === "scientific";
  return (
    <>
      <select
        aria-label="Number format"
        value={notation.value}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          if (isNotation(chosen)) notation.value = chosen;
        }}
      >
        <option value="short">short</option>
        <option value="fixed">fixed</option>
        <option value="scientific">scientific</option>
      </select>
      <input
        type="number"
        class="short"
        aria-label="Digits"
        title="Digits"
        min="0"
        max={MOST_DIGITS}
        value={digits.value}
        onInput={(event) => {
          const count = Math.trunc(Number(event.currentTarget.value));
          if (event.currentTarget.value !== "") digits.value = Math.min(Math.max(count, 0), MOST_DIGITS);
        }}
      />
    </>
  );
}

/** The index as text, and buttons to walk through the dimensions that stand at one place. */
function IndexField({ type, plane, problem }: { type: TensorType; plane: Plane | null; problem: string | null }): JSX.Element {
  const text = place.value.index === "" ? defaultIndex(type.shape) : place.value.index;
  return (
    <div class="toolbar index-line">
      <code class="quiet">{typeText(type)}</code>
      <input
        type="text"
        class={problem === null ? "index" : "index wrong"}
        aria-label="Index"
        aria-invalid={problem !== null}
        title="Which elements, as [0, :, 3:5]: at most two dimensions sliced"
        spellcheck={false}
        value={text}
        onChange={(event) => go({ index: event.currentTarget.value.trim() })}
      />
      {plane?.axes.map((axis, dimension) =>
        typeof axis !== "number" || (type.shape[dimension] ?? 0) < 2 ? null : (
          <span key={dimension} class="stepper">
            <button type="button" class="small" aria-label={`Dimension ${dimension}, one back`} disabled={axis === 0} onClick={() => go({ index: movedIndex(plane, dimension, -1, type.shape) })}>
              ‹
            </button>
            <span class="quiet" title={`Dimension ${dimension}`}>
              {axis} / {type.shape[dimension]}
            </span>
            <button type="button" class="small" aria-label={`Dimension ${dimension}, one on`} disabled={axis + 1 === type.shape[dimension]} onClick={() => go({ index: movedIndex(plane, dimension, 1, type.shape) })}>
              ›
            </button>
          </span>
        ),
      )}
      {place.value.index !== "" && (
        <button type="button" class="link" onClick={() => go({ index: "" })}>
          whole plane
        </button>
      )}
      {problem !== null && <span class="bad-text">{problem}</span>}
    </div>
  );
}

function againstText(against: Against): string {
  const parts: string[] = [];
  if (against.run !== null) parts.push(`run:${against.run}`);
  else if (against.op !== null) parts.push("op");
  else if (against.rank !== null) parts.push(`rank:${against.rank}`);
  else if (against.step !== null) parts.push(`step:${against.step}`);
  return parts.join(" ");
}

function CompareChoice({ at, steps }: { at: TensorAt; steps: readonly number[] }): JSX.Element {
  const { against } = place.value;
  const current = run.value;
  const isChoosing = useSignal(false);
  const previous = previousStep(steps, at.step);
  const choose = (value: string): void => {
    const [kind, ...rest] = value.split(":");
    const target = rest.join(":");
    isChoosing.value = kind === "op";
    switch (kind) {
      case "step":
        return go({ against: { ...SAME, step: Number(target) } });
      case "rank":
        return go({ against: { ...SAME, rank: Number(target), step: at.step } });
      case "run":
        return go({ against: { ...SAME, run: target, step: at.step } });
      case "op":
        return;
      default:
        return go({ against: null });
    }
  };
  const selected = isChoosing.value ? "op:" : against === null ? "" : againstText(against) === "op" ? "op:" : againstText(against);
  const otherRuns = runs.value.filter((each) => each.id !== current?.id).sort((a, b) => Number(b.id === current?.peer) - Number(a.id === current?.peer));
  return (
    <>
      <select aria-label="Compare with" class={against === null ? "" : "active"} value={selected} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">compare with…</option>
        {previous !== null && <option value={`step:${previous}`}>previous step ({previous})</option>}
        {steps
          .filter((each) => each !== previous && each !== at.step)
          .map((each) => (
            <option key={each} value={`step:${each}`}>
              step {each}
            </option>
          ))}
        {against?.step != null && !steps.includes(against.step) && <option value={`step:${against.step}`}>step {against.step}</option>}
        {(current?.ranks ?? [])
          .filter((each) => each.rank !== at.rank)
          .map((each) => (
            <option key={`rank ${each.rank}`} value={`rank:${each.rank}`}>
              rank {each.rank}
            </option>
          ))}
        {otherRuns.map((each) => (
          <option key={each.id} value={`run:${each.id}`}>
            run {runTitle(runs.value, each.id)}
          </option>
        ))}
        <option value="op:">another tensor…</option>
      </select>
      {(isChoosing.value || against?.op != null) && <OtherTensor />}
      {against !== null && (
        <button type="button" class="icon" aria-label="Stop comparing" title="Stop comparing" onClick={() => go({ against: null })}>
          <Icon name="close" />
        </button>
      )}
    </>
  );
}

/** The name of another tensor, with the server's suggestions. */
function OtherTensor(): JSX.Element {
  const found = useSignal<readonly ListedNode[]>([]);
  const query = useSignal("");
  const chosen = place.value.against;
  useEffect(() => {
    const [currentRun, currentRank, currentGraph] = [run.value, rank.value, graph.value];
    if (currentRun === null || currentRank === null || currentGraph === null || query.value.length < 2) return undefined;
    const abort = new AbortController();
    const filter = { query: query.value, category: "", phase: "", file: "", line: null, hits: false };
    api
      .nodes(currentRun.id, currentRank.rank, currentGraph.id, filter, 0, 12, abort.signal)
      .then((page) => (found.value = page.nodes))
      .catch((error: unknown) => {
        if (!isAborted(error)) found.value = [];
      });
    return () => abort.abort();
  }, [query.value]);
  const put = (op: string, io: "input" | "output", slot: number): void => {
    if (op !== "") go({ against: { ...SAME, op, io, slot, step: place.value.step } });
  };
  const [io, slot] = [chosen?.io ?? "output", chosen?.slot ?? 0];
  return (
    <>
      <input
        type="text"
        class="other-op"
        list="other-ops"
        aria-label="Name of the other op"
        placeholder="name of an op"
        spellcheck={false}
        value={chosen?.op ?? ""}
        onInput={(event) => (query.value = event.currentTarget.value)}
        onChange={(event) => put(event.currentTarget.value.trim(), io, slot)}
      />
      <datalist id="other-ops">
        {found.value.map((node) => (
          <option key={node.name} value={node.name} />
        ))}
      </datalist>
      {chosen?.op != null && (
        <select aria-label="Input or output of the other op" value={`${io} ${slot}`} onChange={(event) => {
          const [side, place_] = event.currentTarget.value.split(" ");
          put(chosen.op ?? "", side === "input" ? "input" : "output", Number(place_));
        }}>
          {["output 0", "output 1", "output 2", "input 0", "input 1", "input 2", "input 3"].map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      )}
    </>
  );
}
