import { useSignal } from "@preact/signals";
import { Fragment, type JSX } from "preact";
import { api } from "../load/api";
import { detailsColumn } from "../state/preferences";
import { chooseRank, go, openTensor, rank, run, selectOp } from "../state/store";
import { attempt, toast } from "../state/toasts";
import { fileName } from "../text/names";
import { splitCode, wrappingPieces } from "../text/sentences";
import type { RunHeadline, RunView } from "../wire";

/** What is wrong with the run, in the sentence of the command line, and what to do next. */
export function Headline(): JSX.Element | null {
  const current = run.value;
  const found = current?.headline ?? null;
  if (current === null || found === null) return null;
  return <Band key={`${current.id} ${found.title}`} current={current} found={found} />;
}

interface Told {
  readonly current: RunView;
  readonly found: RunHeadline;
}

function Band({ current, found }: Told): JSX.Element {
  const isAdviceOpen = useSignal(false);
  const rest = found.text.startsWith(found.title) ? found.text.slice(found.title.length) : "";
  return (
    <section
      class={`headline ${found.severity}`}
      aria-label="What is wrong"
      role={found.severity === "error" || found.kind === "lost" ? "alert" : "status"}
    >
      <p class="headline-text">
        <b>{rest === "" ? found.text : found.title}</b>
        {splitCode(rest).map((part, at) =>
          part.isCode ? (
            <code key={at}>{part.text}</code>
          ) : (
            <span key={at}>
              <Unbroken text={part.text} />
            </span>
          ),
        )}
      </p>
      <div class="headline-actions">
        <Actions current={current} found={found} />
        {found.advice !== "" && (
          <button
            type="button"
            class="small"
            aria-expanded={isAdviceOpen.value}
            onClick={() => (isAdviceOpen.value = !isAdviceOpen.value)}
          >
            Advice
          </button>
        )}
      </div>
      {isAdviceOpen.value && <p class="headline-advice">{found.advice}</p>}
    </section>
  );
}

/** Text whose paths wrap after a "/" only, never inside of a name. */
function Unbroken({ text }: { readonly text: string }): JSX.Element {
  return (
    <>
      {wrappingPieces(text).map((piece, at) => (
        <Fragment key={at}>
          {at > 0 && <wbr />}
          {/\s/.test(piece) ? piece : <span class="unbroken">{piece}</span>}
        </Fragment>
      ))}
    </>
  );
}

interface Action {
  readonly text: string;
  readonly title: string;
  readonly act: () => void;
}

function Actions({ current, found }: Told): JSX.Element {
  return (
    <>
      {actionsOf(current, found).map(({ text, title, act }) => (
        <button key={text} type="button" class="small" title={title} onClick={act}>
          {text}
        </button>
      ))}
    </>
  );
}

/** The next actions, the most useful first. */
function actionsOf(current: RunView, found: RunHeadline): readonly Action[] {
  const actions: Action[] = [];
  const { op, step, source } = found;
  const here = found.rank;
  const isElsewhere = here !== null && here !== rank.value?.rank && current.ranks.length > 1;
  const atStep = current.kind === "dump" ? step : null;
  const toRank = (): void => {
    if (isElsewhere) chooseRank(here);
  };
  const showTensor = (io: "input" | "output"): void => {
    toRank();
    openTensor({ op, io, slot: io === "input" ? 0 : found.slot, step: atStep });
  };
  if (isElsewhere) {
    actions.push({
      text: `Go to rank ${here}`,
      title: `Show rank ${here}`,
      act: () => {
        chooseRank(here);
        if (op !== "") selectOp(op, { tab: "graph" });
      },
    });
  }
  if (found.kind === "divergence")
    actions.push({
      text: "Comparison",
      title: "All pairs of tensors",
      act: () => go({ tab: "compare" }),
    });
  if (op !== "") {
    actions.push({
      text: "Values",
      title: `The values of ${op}`,
      act: () => showTensor("output"),
    });
    if (op.includes("/"))
      actions.push({
        text: "Inputs",
        title: `The first input of ${op}`,
        act: () => showTensor("input"),
      });
    actions.push({
      text: "Op",
      title: `${op} in the graph`,
      act: () => {
        toRank();
        selectOp(op, { tab: "graph", step: atStep });
      },
    });
  }
  if (found.kind === "crash")
    actions.push({ text: "Traceback", title: "All its lines", act: () => go({ tab: "run" }) });
  if (source !== null)
    actions.push({
      text: "Ops of this line",
      title: `${fileName(source.file)}:${source.line}`,
      act: () => {
        toRank();
        go({ listing: "ops", file: source.file, line: source.line });
      },
    });
  if (found.kind === "loss")
    actions.push({ text: "Loss", title: "The loss of all steps", act: () => go({ tab: "loss" }) });
  if (found.command !== "")
    actions.push({
      text: "Copy command to find the op",
      title: `Runs the program again, watched for NaN and Inf of all tensors: ${found.command}`,
      act: () =>
        void attempt(() =>
          navigator.clipboard.writeText(found.command).then(() => toast("Command copied")),
        ),
    });
  if (found.kind === "loss" && op === "" && current.controls.length > 0)
    actions.push({
      text: "Watch for NaN and Inf",
      title: "Add the recommended watchpoints",
      act: () => void attempt(() => api.recommend(current.id)),
    });
  if (found.kind === "finding")
    actions.push({
      text: "Findings",
      title: "Evidence, places and documentation",
      act: () => {
        detailsColumn.set("shown");
        go({ side: "findings" });
      },
    });
  if (found.kind === "hit" || found.kind === "overflow")
    actions.push({
      text: "Hits",
      title: "All hits, by cause",
      act: () => go({ side: "hits", hitView: "causes" }),
    });
  return actions;
}
