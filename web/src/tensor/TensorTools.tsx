import type { JSX } from "preact";
import type { OpTensor, TensorType } from "../wire";
import { api, type TensorAt } from "../load/api";
import { lastPart, shortName } from "../text/names";
import { type Notation, typeText } from "../text/numbers";
import type { TensorMode } from "../state/place";
import { digits, notation } from "../state/preferences";
import { go, openTensor, place, rank, refreshTensors, run, selectOp } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { CountField } from "../parts/CountField";
import { Icon } from "../parts/Icon";
import { TextField } from "../parts/TextField";
import { CompareChoice, isComparing } from "./CompareChoice";
import { pythonCode } from "./pythonCode";
import { defaultIndex, movedIndex, type Plane } from "./slices";

interface ToolsProps {
  readonly at: TensorAt;
  /** The step whose values are shown; null before they are loaded. */
  readonly shown: number | null;
  readonly type: TensorType | null;
  readonly tensors: readonly OpTensor[];
  readonly steps: readonly number[];
  readonly plane: Plane | null;
  readonly indexProblem: string | null;
}

/** The toolbar of a tensor: the tensor, its step, its plane, and how it is shown. */
export function TensorTools({
  at,
  shown,
  type,
  tensors,
  steps,
  plane,
  indexProblem,
}: ToolsProps): JSX.Element {
  return (
    <div class="tensor-tools">
      <div class="toolbar">
        <button
          type="button"
          class="link name"
          title={`${at.op}; show it in the graph`}
          onClick={() => selectOp(at.op, { tab: "graph" })}
        >
          {shortName(at.op)}
        </button>
        <SlotChoice at={at} tensors={tensors} />
        <StepChoice steps={steps} shown={shown} />
        {rank.value?.state === "running" && (
          <button
            type="button"
            class="small"
            title="The training is running; click to fetch its current values"
            onClick={() => refreshTensors()}
          >
            refresh
          </button>
        )}
      </div>
      <div class="toolbar">
        <ModeChoice type={type} />
        {place.value.mode !== "curve" && <CompareChoice at={at} steps={steps} shown={shown} />}
        <span class="spacer" />
        <CopyPython at={at} shown={shown} plane={plane} />
        {type !== null && (
          <a
            class="button small"
            href={api.fileAddress(at)}
            download={`${lastPart(at.op)}.${at.io}.${at.slot}.npy`}
            title="Download as .npy"
          >
            <Icon name="down" /> .npy
          </a>
        )}
      </div>
      {place.value.mode !== "curve" && type !== null && (
        <IndexField type={type} plane={plane} problem={indexProblem} />
      )}
    </div>
  );
}

/** Copies code that reads the tensor, or the slice on the screen, in Python. */
function CopyPython({
  at,
  shown,
  plane,
}: Pick<ToolsProps, "at" | "shown" | "plane">): JSX.Element | null {
  const current = run.value;
  if (current === null || plane === null) return null;
  return (
    <button
      type="button"
      class="small"
      title="Copy Python code that reads this tensor"
      onClick={() =>
        void attempt(() =>
          navigator.clipboard
            .writeText(pythonCode(current, { ...at, step: at.step ?? shown }, place.value.index))
            .then(() => toast("Python code copied")),
        )
      }
    >
      <Icon name="copy" /> Python
    </button>
  );
}

/** A parameter has a value instead of inputs and outputs. */
function slotText(op: string, io: string, slot: number): string {
  return io === "output" && slot === 0 && !op.includes("/") ? "value" : `${io} ${slot}`;
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
        openTensor({
          op: at.op,
          io: io === "input" ? "input" : "output",
          slot: Number(slot),
          step: at.step,
        });
      }}
    >
      {!isListed && <option value={value}>{slotText(at.op, at.io, at.slot)}</option>}
      {tensors.map((each) => (
        <option key={`${each.io} ${each.slot}`} value={`${each.io} ${each.slot}`}>
          {slotText(at.op, each.io, each.slot)} [{each.type.shape.join(",")}]
        </option>
      ))}
    </select>
  );
}

function StepChoice({
  steps,
  shown,
}: {
  steps: readonly number[];
  shown: number | null;
}): JSX.Element {
  const { step } = place.value;
  const all =
    step !== null && !steps.includes(step) ? [...steps, step].sort((a, b) => a - b) : steps;
  return (
    <select
      aria-label="Step"
      value={step === null ? "" : String(step)}
      onChange={(event) =>
        go({ step: event.currentTarget.value === "" ? null : Number(event.currentTarget.value) })
      }
    >
      <option value="">
        {step === null && shown !== null ? `latest: step ${shown}` : "latest step"}
      </option>
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
  ["tiles", "tiles"],
  ["curve", "over steps"],
];

function ModeChoice({ type }: { type: TensorType | null }): JSX.Element {
  const { mode: chosen, against } = place.value;
  // Two tensors are compared as a table or a heat map.
  const hasTiles = (type?.shape.length ?? 0) > 2 && !isComparing(against);
  const shown = chosen === "tiles" && !hasTiles ? "table" : chosen;
  return (
    <div class="segments" role="tablist" aria-label="How the tensor is shown">
      {MODES.filter(([mode]) => mode !== "tiles" || hasTiles).map(([mode, text]) => (
        <button
          key={mode}
          type="button"
          role="tab"
          aria-selected={shown === mode}
          onClick={() => go({ mode })}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

const MOST_DIGITS = 12;

function FormatChoice(): JSX.Element {
  const isNotation = (text: string): text is Notation =>
    text === "short" || text === "fixed" || text === "scientific";
  return (
    <>
      <select
        aria-label="Number format"
        value={notation.value}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          if (isNotation(chosen)) notation.set(chosen);
        }}
      >
        <option value="short">short</option>
        <option value="fixed">fixed</option>
        <option value="scientific">scientific</option>
      </select>
      <CountField
        label="Digits"
        title="Digits"
        class="short"
        value={digits.value}
        least={0}
        most={MOST_DIGITS}
        onChange={(count) => digits.set(count)}
      />
    </>
  );
}

/** The index as text, and buttons that move through the dimensions with a single index. */
function IndexField({
  type,
  plane,
  problem,
}: {
  type: TensorType;
  plane: Plane | null;
  problem: string | null;
}): JSX.Element {
  const text = place.value.index === "" ? defaultIndex(type.shape) : place.value.index;
  return (
    <div class="toolbar index-line">
      <code class="quiet">{typeText(type)}</code>
      <TextField
        label="Index"
        class={problem === null ? "index" : "index wrong"}
        title="Elements to show, for example [0, :, 3:5]; at most two dimensions may be slices"
        value={text}
        isWrong={problem !== null}
        onDone={(index) => go({ index, comparedRow: 0 })}
      />
      {plane?.axes.map((axis, dimension) =>
        typeof axis !== "number" || (type.shape[dimension] ?? 0) < 2 ? null : (
          <span key={dimension} class="stepper">
            <button
              type="button"
              class="small"
              aria-label={`Previous slice in dimension ${dimension}`}
              disabled={axis === 0}
              onClick={() => go({ index: movedIndex(plane, dimension, -1, type.shape) })}
            >
              ‹
            </button>
            <span class="quiet" title={`Dimension ${dimension}`}>
              {axis} of 0–{(type.shape[dimension] ?? 1) - 1}
            </span>
            <button
              type="button"
              class="small"
              aria-label={`Next slice in dimension ${dimension}`}
              disabled={axis + 1 === type.shape[dimension]}
              onClick={() => go({ index: movedIndex(plane, dimension, 1, type.shape) })}
            >
              ›
            </button>
          </span>
        ),
      )}
      {place.value.index !== "" && (
        <button
          type="button"
          class="link"
          title="Go back to the default slice"
          onClick={() => go({ index: "" })}
        >
          reset
        </button>
      )}
      {problem !== null && <span class="bad-text">{problem}</span>}
      <span class="spacer" />
      <FormatChoice />
    </div>
  );
}
