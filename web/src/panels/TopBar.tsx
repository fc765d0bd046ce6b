import type { JSX } from "preact";
import type { Command, RankView, RunView } from "../wire";
import { lastPlace, lossLines } from "../parts/chartLines";
import { useLoss } from "../load/loss";
import { graphName, lastPart, runTitle } from "../text/names";
import { hasFailed } from "../text/states";
import { counted } from "../text/numbers";
import { controlledRank, stepsToRun, type Theme, theme } from "../state/preferences";
import {
  chooseRank,
  chooseStep,
  chooseRun,
  command,
  go,
  place,
  rank,
  rankToControl,
  run,
  runs,
} from "../state/store";
import { CountField } from "../parts/CountField";
import { Icon, type IconName } from "../parts/Icon";
import { Sparkline } from "../parts/Sparkline";
import { openDialog } from "./dialogs";
import { continueTraining } from "./Presets";

const MOST_TABS = 4;

/** Run, rank, state, controls and the loss: visible whatever else is. */
export function TopBar(): JSX.Element {
  const current = run.value;
  return (
    <header class="topbar">
      <a class="brand" href="./" title="All runs of this server">
        <img src="./sonde.svg" width="18" height="18" alt="" />
        <span class="brand-name">Sonde</span>
      </a>
      {current !== null && <RunChoice current={current} />}
      {current !== null && <RankChoice current={current} />}
      {rank.value !== null &&
        (current?.kind === "dump" ? (
          <DumpSteps rank={rank.value} />
        ) : (
          <StatePill rank={rank.value} />
        ))}
      {current !== null && current.kind === "live" && <Controls current={current} />}
      <span class="spacer" />
      {current !== null && <LastLoss />}
      <ThemeButton />
      <button
        type="button"
        class="icon"
        aria-label="Keyboard shortcuts (?)"
        title="Keyboard shortcuts (?)"
        onClick={() => openDialog({ kind: "help" })}
      >
        ?
      </button>
    </header>
  );
}

function RunChoice({ current }: { current: RunView }): JSX.Element {
  return (
    <select
      class="run-choice"
      aria-label="Run"
      value={current.id}
      title={current.title}
      onChange={(event) => chooseRun(event.currentTarget.value)}
    >
      {runs.value.map((each) => (
        <option key={each.id} value={each.id}>
          {runTitle(runs.value, each.id)}
          {isOver(each) && (each.ranks.some(hasFailed) ? " (failed)" : " (ended)")}
        </option>
      ))}
    </select>
  );
}

function isOver(each: RunView): boolean {
  return (
    each.kind === "live" && each.ranks.every(({ state }) => state === "ended" || state === "lost")
  );
}

function RankChoice({ current }: { current: RunView }): JSX.Element | null {
  const chosen = rank.value;
  if (chosen === null) return null;
  if (current.ranks.length < 2) return <OneRank rank={chosen} />;
  if (current.ranks.length > MOST_TABS) {
    return (
      <select
        class="rank-choice"
        aria-label="Rank"
        value={String(chosen.rank)}
        onChange={(event) => chooseRank(Number(event.currentTarget.value))}
      >
        {current.ranks.map((each) => (
          <option
            key={each.rank}
            value={String(each.rank)}
            title={`${each.state}, step ${each.step}`}
          >
            rank {each.rank}
          </option>
        ))}
      </select>
    );
  }
  return (
    <div class="segments" role="tablist" aria-label="Rank">
      <span class="quiet segments-name">rank</span>
      {current.ranks.map((each) => (
        <button
          type="button"
          role="tab"
          key={each.rank}
          aria-selected={each.rank === chosen.rank}
          title={`rank ${each.rank}: ${each.state}, step ${each.step}${clientText(each)}`}
          onClick={() => chooseRank(each.rank)}
        >
          <span class={`dot ${each.state}`} /> {each.rank}
        </button>
      ))}
    </div>
  );
}

function OneRank({ rank: one }: { rank: RankView }): JSX.Element {
  return (
    <span class="quiet on-wide address" title="IP address and port of the training process">
      {one.address}
    </span>
  );
}

function clientText({ address }: RankView): string {
  return address === "" ? "" : `, client ${address}`;
}

/** The steps a dump has, in place of the controls of a training. */
function DumpSteps({ rank: one }: { rank: RankView }): JSX.Element {
  const { steps } = one;
  const chosen = place.value.step ?? steps.at(-1) ?? null;
  const at = chosen === null ? -1 : steps.indexOf(chosen);
  const move = (by: number): void => {
    const next = steps[at + by];
    if (next !== undefined) chooseStep(next);
  };
  return (
    <div class="state" role="toolbar" aria-label="Steps of the dump">
      <span class="pill">dump</span>
      <button
        type="button"
        class="icon"
        aria-label="Previous step"
        disabled={at <= 0}
        onClick={() => move(-1)}
      >
        ‹
      </button>
      <select
        aria-label="Step of the dump"
        value={chosen === null ? "" : String(chosen)}
        onChange={(event) => chooseStep(Number(event.currentTarget.value))}
      >
        {steps.map((step) => (
          <option key={step} value={String(step)}>
            step {step}
          </option>
        ))}
      </select>
      <button
        type="button"
        class="icon"
        aria-label="Next step"
        disabled={at === -1 || at + 1 >= steps.length}
        onClick={() => move(1)}
      >
        ›
      </button>
      <span class="quiet">{counted(steps.length, "step")}</span>
    </div>
  );
}

const REASONS: Readonly<Record<NonNullable<RankView["reason"]>, string>> = {
  missed: "after a step without the op",
  start: "before the first step",
  pause: "on request",
  step: "after a step",
  op: "at an op",
  hit: "at a hit",
  breakpoint: "at a breakpoint",
};

/**
 * Which paused rank a running one waits for, as far as is known, and where that rank paused; null
 * without one.
 */
function waiting(one: RankView, others: readonly RankView[]): readonly [string, string] | null {
  const paused = others.filter((each) => each.state === "paused");
  const first = paused[0];
  if (one.state !== "running" || first === undefined) return null;
  const at = first.reason === null ? "" : ` ${REASONS[first.reason]}`;
  const who = paused.length === 1 ? `rank ${first.rank}` : `${paused.length} ranks`;
  if (one.waits_for.length > 0) return [`waiting for ${who}`, `, paused${at}`];
  return [`running, ${who} paused`, at];
}

/** The state of a rank: what is always shown, and what only a wide window has room for. */
function stateWords(one: RankView, others: readonly RankView[]): readonly [string, string] {
  if (hasFailed(one)) return ["failed", ""];
  if (!one.is_answering) return ["not answering", ""];
  const reason = one.state === "paused" && one.reason !== null ? ` ${REASONS[one.reason]}` : "";
  return waiting(one, others) ?? [`${one.state}${reason}`, ""];
}

function StatePill({ rank: one }: { rank: RankView }): JSX.Element {
  const others = (run.value?.ranks ?? []).filter((each) => each.rank !== one.rank);
  const [text, more] = stateWords(one, others);
  return (
    <div class="state" role="status" aria-label="State of the training">
      <span
        class={`pill ${hasFailed(one) ? "failed" : one.is_answering ? one.state : "lost"}`}
        title={one.message === "" ? `${text}${more}` : one.message}
      >
        {text}
        {more !== "" && <span class="pill-more">{more}</span>}
      </span>
      <span class="where">
        step <b>{one.step}</b>
        <GraphOfStep rank={one} />
        {one.op !== null && (
          <button
            type="button"
            class="link where-op"
            title={`The current op: ${one.op}`}
            onClick={() => goTo(one.op ?? "")}
          >
            {lastPart(one.op)}
          </button>
        )}
      </span>
    </div>
  );
}

/** The graph that runs or ran last, where the steps of a training differ. */
function GraphOfStep({ rank: one }: { rank: RankView }): JSX.Element | null {
  const { graphs } = one;
  const current = graphs.find(({ id }) => id === one.graph);
  if (graphs.length < 2 || current?.whole !== true) return null;
  return <span class="quiet graph-of-step"> · {graphName(current, graphs)}</span>;
}

function goTo(op: string): void {
  go({ op, tab: "graph" });
}

interface Button {
  readonly command: Command;
  readonly icon: IconName;
  readonly label: string;
  readonly title: string;
}

const CONTINUE: Button = {
  command: "continue",
  icon: "play",
  label: "Continue",
  title: "Continue (space or F8)",
};
const PAUSE: Button = {
  command: "pause",
  icon: "pause",
  label: "Pause",
  title: "Pause (space or F8)",
};
const NEXT: Button = {
  command: "next",
  icon: "next",
  label: "Next op",
  title: "Run the next op (n)",
};

function Controls({ current }: { current: RunView }): JSX.Element {
  const can = (name: Command): boolean => current.controls.includes(name);
  const isRunning = rank.value?.state === "running";
  const first = isRunning ? PAUSE : CONTINUE;
  const op = place.value.op;
  const runSteps = (): void => {
    if (can("step")) command({ command: "step", steps: stepsToRun.value });
  };
  return (
    <div class="controls" role="toolbar" aria-label="Training control">
      <ControlButton
        {...first}
        isPrimary
        enabled={can(first.command)}
        onClick={() => (first === CONTINUE ? continueTraining() : command({ command: "pause" }))}
      />
      <span class="step-control">
        <button
          type="button"
          title="Run this many steps (s)"
          aria-label="Run steps"
          disabled={!can("step")}
          onClick={runSteps}
        >
          <Icon name="step" />
          <span class="on-wide">Run steps</span>
        </button>
        <CountField
          label="Steps to run"
          title="Number of steps; Enter runs them"
          value={stepsToRun.value}
          least={1}
          onChange={(count) => stepsToRun.set(count)}
          onEnter={runSteps}
        />
      </span>
      <ControlButton {...NEXT} enabled={can("next")} onClick={() => command({ command: "next" })} />
      <ControlButton
        command="to"
        icon="to"
        label="Run to op"
        title={op === "" ? "Select an op to run to (o)" : `Run to ${op} (o)`}
        enabled={can("to") && op !== ""}
        onClick={() => command({ command: "to", op })}
      />
      <span class="apart" />
      <ControlButton
        command="terminate"
        icon="stop"
        label="Terminate"
        title="Terminate the training (x)"
        enabled={can("terminate")}
        onClick={() => openDialog({ kind: "terminate" })}
      />
      {current.ranks.length > 1 && <ControlledRanks />}
    </div>
  );
}

function ControlledRanks(): JSX.Element {
  const chosen = rank.value?.rank ?? 0;
  return (
    <select
      aria-label="Ranks to control"
      title="Ranks to control"
      value={rankToControl.value === null ? "all" : "one"}
      onChange={(event) => controlledRank.set(event.currentTarget.value === "all" ? null : chosen)}
    >
      <option value="all">all ranks</option>
      <option value="one">rank {rankToControl.value ?? chosen}</option>
    </select>
  );
}

interface ControlButtonProps extends Button {
  readonly enabled: boolean;
  readonly isPrimary?: boolean;
  readonly onClick: () => void;
}

function ControlButton({
  icon,
  label,
  title,
  enabled,
  isPrimary = false,
  onClick,
}: ControlButtonProps): JSX.Element {
  return (
    <button
      type="button"
      class={isPrimary ? "primary" : ""}
      aria-label={label}
      title={title}
      disabled={!enabled}
      onClick={onClick}
    >
      <Icon name={icon} />
      <span class={isPrimary ? "" : "on-wide"}>{label}</span>
    </button>
  );
}

/** How many losses the header shows if there are several optimizers. */
const MOST_LOSSES = 2;

function LastLoss(): JSX.Element | null {
  const points = useLoss();
  const recent = points.filter((point) => point.loss !== null).slice(-400);
  if (recent.length === 0) return null;
  const lines = lossLines(recent);
  const lasts = lines.map(({ optimizer, values, words }) => {
    const place = lastPlace(values, values.length - 1);
    return {
      optimizer,
      step: recent[place]?.step,
      text: words[place] ?? "",
      isFinite: values[place] !== null,
    };
  });
  const title = lasts
    .map(
      ({ optimizer, step, text }) =>
        `${optimizer === "" ? "" : `${optimizer}: `}loss ${text} at step ${step ?? "–"}`,
    )
    .join("\n");
  return (
    <button
      type="button"
      class="loss-hint"
      title={`${title}; open the curve`}
      onClick={() => go({ tab: "loss" })}
    >
      <span class="quiet loss-word">loss</span>
      {lasts.slice(0, MOST_LOSSES).map(({ optimizer, step, text, isFinite }) => (
        <span key={optimizer}>
          {lasts.length > 1 && <span class="quiet">{optimizer.split(" of ").at(-1)} </span>}
          <span class="loss-value">
            <b class={isFinite ? "" : "bad-text"}>{text}</b>
            {step !== undefined && <span class="quiet loss-step"> step {step}</span>}
          </span>
        </span>
      ))}
      <Sparkline
        lines={lines.map(({ values }) => values)}
        label={`Loss of the last ${recent.length} steps`}
      />
    </button>
  );
}

const NEXT_THEME: Readonly<Record<Theme, Theme>> = {
  system: "dark",
  dark: "light",
  light: "system",
};

function ThemeButton(): JSX.Element {
  const text = `Colours: ${theme.value}`;
  const sign = theme.value === "system" ? "auto" : theme.value;
  return (
    <button
      type="button"
      class="theme"
      aria-label={text}
      title={text}
      onClick={() => theme.set(NEXT_THEME[theme.value])}
    >
      <Icon name="sun" /> <span class="quiet">{sign}</span>
    </button>
  );
}
