import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { api } from "../load/api";
import { useConditions } from "../load/conditions";
import { useResource } from "../load/resource";
import { go, place, rank, run, selectOp, throttledVersion } from "../state/store";
import { fileName, lastPart, shortName } from "../text/names";
import { counted, grouped } from "../text/numbers";
import type { CauseView, Hit, HitPhase } from "../wire";
import { HitRow, keyOf } from "./HitRow";

/** The phases of hits in words. */
export const PHASES: Readonly<Record<HitPhase, string>> = {
  forward: "forward",
  backward: "gradients",
  optimizer: "optimizer",
  weights: "weights and inputs",
};
const MOST_SHOWN = 50;

/** The hits by cause: the op that made NaN or Inf, then phases, then tensors. */
export function Causes(): JSX.Element {
  const current = run.value;
  const wanted = place.value.hitAllRanks ? null : (rank.value?.rank ?? null);
  const request = current === null ? null : { run: current.id, rank: wanted };
  const { data, error } = useResource(request, throttledVersion("hits"), api.causes);
  if (error !== null) return <p class="error-line">{error}</p>;
  if (data === null) return <p class="quiet note">…</p>;
  return (
    <div class="causes scroll" role="list" aria-label="Causes">
      {data.causes.map((cause) => (
        <Cause key={keyOfCause(cause)} cause={cause} />
      ))}
      {data.total > data.causes.length && (
        <p class="quiet note">and {grouped(data.total - data.causes.length)} more causes</p>
      )}
      {data.harmless > 0 && (
        <Folded
          text={`${counted(data.harmless, "tensor")} with NaN or Inf that are no fault`}
          title="They reached neither the loss nor an update of weights, such as the -inf of a mask"
          filter={{ verdict: "undecided", is_harmless: true, rank: wanted }}
        />
      )}
      {data.undecided > 0 && (
        <Folded
          text={`${counted(data.undecided, "result")} not checkable`}
          title="Each says what was missing, such as the value of the previous step"
          filter={{ verdict: "undecided", is_harmless: false, rank: wanted }}
        />
      )}
    </div>
  );
}

function keyOfCause({ rank: number, origin, watchpoint, condition }: CauseView): string {
  return `${number} ${origin} ${origin === "" ? `${watchpoint} ${condition}` : ""}`;
}

/** One cause: its sentence, and how many tensors got it in which phase. */
function Cause({ cause }: { readonly cause: CauseView }): JSX.Element {
  const { first, origin } = cause;
  const op = origin === "" ? first.op : origin;
  const several = (run.value?.ranks.length ?? 0) > 1;
  const isSelected = place.value.op === op;
  return (
    <div class={`cause ${isSelected ? "selected" : ""}`} role="listitem">
      <div class="hit-head">
        <span class="hit-step">
          {several && `rank ${cause.rank}, `}step {first.step}
        </span>
        <button
          type="button"
          class="link name"
          title={op}
          onClick={() =>
            selectOp(op, {
              ...(several ? { rank: cause.rank } : {}),
              step: first.step,
              io: "output",
              slot: 0,
            })
          }
        >
          {lastPart(op)}
        </button>
        <span class="spacer" />
        {origin !== "" && <span class="badge-text origin">origin</span>}
      </div>
      <p class="cause-title" title={first.headline?.text ?? first.why}>
        {first.headline?.title ?? titleOf(first)}
        {first.source !== null && (
          <span class="quiet">
            {" "}
            {fileName(first.source.file)}:{first.source.line}
          </span>
        )}
      </p>
      {origin !== "" && cause.others > 0 && (
        <p class="quiet cause-count">
          {counted(
            cause.phases.reduce((sum, { tensors }) => sum + tensors, 0),
            "tensor",
          )}
          : its own and {grouped(cause.others)} that got the values from there
        </p>
      )}
      <ul class="cause-phases">
        {cause.phases.map(({ phase, tensors, hits }) => (
          <Phase key={phase} cause={cause} phase={phase} tensors={tensors} hits={hits} />
        ))}
      </ul>
    </div>
  );
}

function titleOf(hit: Hit): string {
  return `${hit.condition} at ${shortName(hit.op)}`;
}

interface PhaseProps {
  readonly cause: CauseView;
  readonly phase: HitPhase;
  readonly tensors: number;
  readonly hits: number;
}

/** The tensors of a cause in one phase, unfolded on demand. */
function Phase({ cause, phase, tensors, hits }: PhaseProps): JSX.Element {
  const isOpen = useSignal(false);
  const filter = {
    origin: cause.origin,
    phase,
    rank: cause.rank,
    ...(cause.origin === "" ? { condition: cause.condition, watchpoint: cause.watchpoint } : {}),
  };
  return (
    <li>
      <button
        type="button"
        class="link"
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        {isOpen.value ? "▾" : "▸"} {counted(tensors, "tensor")} in {PHASES[phase]}
      </button>
      {hits !== tensors && <span class="quiet"> {counted(hits, "hit")}</span>}
      {isOpen.value && <Unfolded filter={filter} />}
    </li>
  );
}

interface FoldedProps {
  readonly text: string;
  readonly title: string;
  readonly filter: CauseFilter;
}

/** Results that are no hits, folded. */
function Folded({ text, title, filter }: FoldedProps): JSX.Element {
  const isOpen = useSignal(false);
  return (
    <div class="cause undecided" role="listitem">
      <button
        type="button"
        class="link"
        title={title}
        aria-expanded={isOpen.value}
        onClick={() => (isOpen.value = !isOpen.value)}
      >
        {isOpen.value ? "▾" : "▸"} {text}
      </button>
      {isOpen.value && <Unfolded filter={filter} />}
    </div>
  );
}

interface CauseFilter {
  readonly rank: number | null;
  readonly origin?: string;
  readonly phase?: HitPhase;
  readonly condition?: string;
  readonly watchpoint?: number;
  readonly verdict?: string;
  readonly is_harmless?: boolean;
}

function Unfolded({ filter }: { readonly filter: CauseFilter }): JSX.Element {
  const current = run.value;
  const { rank: wanted, watchpoint = null, verdict = "hit", ...rest } = filter;
  const request =
    current === null
      ? null
      : {
          run: current.id,
          rank: wanted,
          watchpoint,
          graph: null,
          step: null,
          op: "",
          verdict,
          ...rest,
          offset: 0,
          limit: MOST_SHOWN,
        };
  const { data } = useResource(request, throttledVersion("hits"), api.hits);
  const conditions = useConditions().data?.conditions ?? [];
  if (data === null) return <p class="quiet note">…</p>;
  return (
    <div class="cause-hits" role="list" aria-label="Tensors">
      {data.hits.map((hit) => (
        <HitRow
          key={keyOf(hit)}
          hit={hit}
          info={conditions.find((each) => each.id === hit.condition)}
          isOpen={place.value.chains.includes(keyOf(hit))}
        />
      ))}
      {data.total > data.hits.length && (
        <button type="button" class="link" onClick={() => go({ hitView: "list" })}>
          and {grouped(data.total - data.hits.length)} more: show the list
        </button>
      )}
    </div>
  );
}
