import type { JSX } from "preact";
import { go, openTensor, place, rank, run, selectOp } from "../state/store";
import { fileName, lastPart } from "../text/names";
import { brief, grouped, typeText } from "../text/numbers";
import type { ConditionInfo, Hit, ParameterValue } from "../wire";

/** A hit as the address names it. */
export const keyOf = (hit: Hit): string => `${hit.rank}.${hit.number}`;

/** The parts of a value: its name, what was set, what was found. */
function valueText({ name, preset, actual }: ParameterValue): readonly [string, string, string] {
  const set = preset === null ? "" : `set ${brief(preset)}${actual === null ? "" : ","}`;
  return [name, set, actual === null ? "" : `found ${brief(actual)}`];
}

function titleOf(hit: Hit, info: ConditionInfo | undefined): string {
  return (
    info?.title ??
    run.value?.watchpoints.find((each) => each.id === hit.watchpoint)?.name ??
    hit.condition
  );
}

/** The full reason, which the row itself may cut off, and what to do. */
function adviceOf(hit: Hit, info: ConditionInfo | undefined): string {
  const advice = hit.advice === "" ? (info?.advice ?? "") : hit.advice;
  return [hit.why === "" || /[.!?]$/.test(hit.why) ? hit.why : `${hit.why}.`, advice]
    .filter((text) => text !== "")
    .join(" ");
}

/** How certain a hit is. */
const CERTAINTY: Readonly<Record<Hit["status"], string>> = {
  established: "Certain: the values and the op that produced them are shown",
  supported: "A statistic is beyond its threshold, or the origin is not known",
  hypothesis: "Not decided: a guess until more is known",
};

interface HitRowProps {
  readonly hit: Hit;
  readonly info: ConditionInfo | undefined;
  readonly isOpen: boolean;
}

export function HitRow({ hit, info, isOpen }: HitRowProps): JSX.Element {
  const watchpoint = run.value?.watchpoints.find((each) => each.id === hit.watchpoint);
  const { op, step, chains } = place.value;
  const advice = adviceOf(hit, info);
  const isSelected =
    op === hit.op && (step === null || step === hit.step) && hit.rank === rank.value?.rank;
  const here = { rank: hit.rank === rank.value?.rank ? place.value.rank : hit.rank };
  const toggle = (button: HTMLElement): void => {
    go({ chains: isOpen ? chains.filter((each) => each !== keyOf(hit)) : [...chains, keyOf(hit)] });
    // At the end of the list the unfolded part would be below the visible area.
    requestAnimationFrame(() => button.closest(".row-place")?.scrollIntoView({ block: "nearest" }));
  };
  return (
    <div class={`hit ${hit.verdict} ${hit.part} ${isSelected ? "selected" : ""}`} role="listitem">
      <div
        class="hit-head"
        title={hit.op}
        onClick={() =>
          selectOp(hit.op, {
            io: hit.io,
            slot: hit.slot,
            step: hit.step,
            index: "",
            against: null,
            ...here,
          })
        }
      >
        <span class="hit-step">
          {(run.value?.ranks.length ?? 0) > 1 && `rank ${hit.rank}, `}step {hit.step}
        </span>
        <button type="button" class="link name">
          {lastPart(hit.op)}
        </button>
        {hit.op.includes("/") && (
          <span class="quiet slot-name">
            {hit.io} {hit.slot}
          </span>
        )}
        <span class="spacer" />
        {hit.verdict === "undecided" ? (
          <span class="badge-text undecided">{hit.is_harmless ? "no fault" : "not checkable"}</span>
        ) : (
          <PartBadge part={hit.part} />
        )}
      </div>
      <div
        class="hit-body"
        title={[watchpoint?.name, info?.formula, hit.why]
          .filter((text) => text !== undefined && text !== "")
          .join("\n")}
      >
        <span class="quiet">{titleOf(hit, info)}</span>
        <Values values={hit.values} />
        {hit.count > 1 && <span class="quiet">×{grouped(hit.count)}</span>}
        <span class="why">
          {hit.values.length > 0 && hit.why !== "" && "· "}
          {hit.why}
        </span>
      </div>
      <div class="hit-foot">
        <button type="button" class="link" title="Open the tensor" onClick={() => openTensor(hit)}>
          {typeText(hit.type)}
        </button>
        <span class="quiet" title={CERTAINTY[hit.status]}>
          {hit.status}
        </span>
        {hit.source !== null && (
          <span
            class="quiet name"
            title={`${hit.source.file}:${hit.source.line}\n${hit.source.code.trim()}`}
          >
            {fileName(hit.source.file)}:{hit.source.line}
            {hit.source.library !== "" && ` (${hit.source.library})`}
          </span>
        )}
        <span class="spacer" />
        {hit.origin !== null && hit.part !== "producer" && (
          <button
            type="button"
            class="link origin-link"
            title={`First produced by ${hit.origin}`}
            onClick={() => selectOp(hit.origin ?? "", { step: hit.step, ...here })}
          >
            origin: {lastPart(hit.origin)}
          </button>
        )}
        {(hit.chain.length > 1 || advice !== "") && (
          <button
            type="button"
            class="link"
            aria-expanded={isOpen}
            title={
              hit.chain.length > 1
                ? "The ops from the origin to here, and what to do"
                : "What was found, and what to do"
            }
            onClick={(event) => toggle(event.currentTarget)}
          >
            {hit.chain.length > 1 ? `chain of ${hit.chain.length} ops` : "advice"}
          </button>
        )}
      </div>
      {isOpen && hit.chain.length > 1 && <Chain hit={hit} />}
      {isOpen && advice !== "" && <p class="advice">{advice}</p>}
    </div>
  );
}

export function PartBadge({ part }: { readonly part: Hit["part"] }): JSX.Element | null {
  switch (part) {
    case "producer":
      return (
        <span
          class="badge-text origin"
          title="Its inputs are finite and its output is not: this op produced the values"
        >
          origin
        </span>
      );
    case "carrier":
      return (
        <span class="badge-text carrier" title="It got non-finite values from its inputs">
          carrier
        </span>
      );
    case "other":
      return null;
  }
}

function Values({ values }: { values: readonly ParameterValue[] }): JSX.Element {
  return (
    <span class="hit-values">
      {values.map((value) => {
        const [name, set, found] = valueText(value);
        return (
          <span key={name}>
            {name} {set !== "" && <span class="quiet">{set} </span>}
            {found !== "" && <b>{found}</b>}
          </span>
        );
      })}
    </span>
  );
}

function Chain({ hit }: { hit: Hit }): JSX.Element {
  return (
    <ol class="chain" aria-label="From the origin to here">
      {hit.chain.map((op, at) => (
        <li key={`${at} ${op}`}>
          <button
            type="button"
            class="link"
            title={op}
            onClick={() => selectOp(op, { step: hit.step })}
          >
            {lastPart(op)}
          </button>
          {op === hit.origin && <span class="badge-text origin">origin</span>}
        </li>
      ))}
    </ol>
  );
}
