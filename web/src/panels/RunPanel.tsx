import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Metadata, RankView } from "../wire";
import { api } from "../load/api";
import { brief, counted, grouped, seconds } from "../text/numbers";
import { chooseRun, go, removeRun, replaceRun, run } from "../state/store";
import { attempt } from "../state/toasts";
import { Empty } from "../parts/Empty";
import { fileName, moduleName, readParts } from "../text/names";
import { stateText } from "../text/states";
import { keptText } from "./KeepButton";
import { Reports } from "./Reports";

/** Facts about the run and its processes. */
export function RunPanel(): JSX.Element {
  const current = run.value;
  if (current === null) return <Empty title="No run" />;
  const isOver = current.ranks.every((each) => each.state === "ended" || each.state === "lost");
  return (
    <section class="scroll run-panel" aria-label="Run">
      <h3>{current.title}</h3>
      <p class="quiet">
        {current.kind === "dump" ? "A dump on disk" : "A live training"},{" "}
        {counted(current.ranks.length, "rank")}
      </p>
      {current.kind === "live" && isOver && <RemoveButton key={current.id} id={current.id} />}
      {current.ranks.map((each) => (
        <Traceback key={each.rank} of={each} />
      ))}
      <Facts ranks={current.ranks} isDump={current.kind === "dump"} />
      {current.kind === "live" && !isOver && <MeasureSpeed id={current.id} ranks={current.ranks} />}
      {current.kind === "live" && !isOver && <KeptList id={current.id} ranks={current.ranks} />}
      <Reports of={current} />
      <h4>Messages</h4>
      {current.notices.length === 0 ? (
        <p class="quiet">None.</p>
      ) : (
        <ul class="notices">
          {current.notices.map((notice, at) => (
            <li key={at}>{notice}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** The traceback of a rank that failed; its own lines lead to their ops. */
function Traceback({ of: one }: { readonly of: RankView }): JSX.Element | null {
  if (one.frames.length === 0) return null;
  return (
    <>
      <h4>Traceback of rank {one.rank}</h4>
      <ol class="traceback" aria-label={`Traceback of rank ${one.rank}`}>
        {one.frames.map(({ line, is_own: isOwn }, at) => (
          <li key={at} class={isOwn ? "own" : ""}>
            <span class="quiet" title={line.file}>
              {fileName(line.file)}:{line.line}, in {line.function}
            </span>{" "}
            {isOwn && (
              <button
                type="button"
                class="link"
                title="The ops of this line"
                onClick={() =>
                  go({ rank: one.rank, listing: "ops", file: line.file, line: line.line })
                }
              >
                ops of this line
              </button>
            )}
            <br />
            <code>{line.code}</code>
          </li>
        ))}
        <li class="own">
          <b>{one.error}</b>
        </li>
      </ol>
    </>
  );
}

/** What is kept and recorded on request, with buttons to stop that. */
function KeptList({
  id,
  ranks,
}: {
  readonly id: string;
  readonly ranks: readonly RankView[];
}): JSX.Element {
  const kept = ranks.flatMap((each) => each.kept.map((one) => ({ rank: each.rank, ...one })));
  const recorded = ranks.flatMap((each) => each.recorded.map((op) => ({ rank: each.rank, op })));
  const whose = (number: number): string => (ranks.length > 1 ? `rank ${number}: ` : "");
  return (
    <>
      <h4>Kept on request</h4>
      {kept.length + recorded.length === 0 && (
        <p class="quiet">
          Nothing. “keep values” of an op keeps its tensors; “over steps” records its statistics.
        </p>
      )}
      <ul class="kept-list" aria-label="Kept on request">
        {kept.map((each) => (
          <li key={`${each.rank} ${each.pattern}`}>
            <span class="name" title={each.pattern}>
              {whose(each.rank)}
              {readParts(each.pattern).map(moduleName).join(" › ")}
            </span>
            <span class="quiet">values of the {keptText(each)}</span>
            <button
              type="button"
              class="small"
              onClick={() => void attempt(() => api.keep(id, [each.pattern], 0))}
            >
              stop
            </button>
          </li>
        ))}
        {recorded.map(({ rank: number, op }) => (
          <li key={`${number} ${op}`}>
            <span class="name" title={op}>
              {whose(number)}
              {readParts(op).map(moduleName).join(" › ")}
            </span>
            <span class="quiet">statistics of every step</span>
            <button
              type="button"
              class="small"
              onClick={() =>
                void attempt(() =>
                  api.record(id, { op, io: "output", slot: 0, rank: number, is_on: false }),
                )
              }
            >
              stop
            </button>
          </li>
        ))}
      </ul>
    </>
  );
}

/** Removes the run from the server, after a confirmation. */
function RemoveButton({ id }: { id: string }): JSX.Element {
  const isConfirming = useSignal(false);
  if (!isConfirming.value) {
    return (
      <button type="button" onClick={() => (isConfirming.value = true)}>
        Remove this run
      </button>
    );
  }
  return (
    <p class="actions">
      Its graphs, hits and losses will be deleted.
      <button type="button" class="small danger" onClick={() => void attempt(() => forget(id))}>
        {" "}
        Remove{" "}
      </button>
      <button type="button" class="small" onClick={() => (isConfirming.value = false)}>
        {" "}
        Cancel{" "}
      </button>
    </p>
  );
}

async function forget(id: string): Promise<void> {
  await api.forget(id);
  removeRun(id);
  chooseRun("");
}

/** Lets one coming step run unobserved, which measures the speed without Sonde. */
function MeasureSpeed({
  id,
  ranks,
}: {
  readonly id: string;
  readonly ranks: readonly RankView[];
}): JSX.Element {
  const isMeasuring = ranks.some((each) => each.is_measuring);
  const isPaused = ranks.every((each) => each.state === "paused");
  return (
    <p class="actions">
      <button
        type="button"
        class="small"
        disabled={isMeasuring}
        title="One coming step runs unobserved: watchpoints on its ops and gradients are not evaluated"
        onClick={() => void attempt(async () => replaceRun(await api.measureSpeed(id)))}
      >
        Measure the speed without Sonde
      </button>
      {isMeasuring && (
        <span class="quiet" role="status">
          {isPaused
            ? "One step will run unobserved after the training continues."
            : "One of the coming steps runs unobserved."}
        </span>
      )}
    </p>
  );
}

/** Seconds per step and steps per second. */
function speedText(value: number | null, otherwise: string): string {
  return value === null || value <= 0
    ? otherwise
    : `${seconds(value)}, ${brief(1 / value)} steps/s`;
}

function withoutSonde({ bare_seconds: bare, seconds: took }: RankView): string {
  return speedText(bare, took === null ? NO_STEP : ALL_OBSERVED);
}

function cost({ bare_seconds: bare, seconds: took }: RankView): string {
  return bare !== null && took !== null && bare > 0 ? `${(took / bare).toFixed(2)}×` : "–";
}

const NO_STEP = "not known before the first step has ended";
const ALL_OBSERVED = "not known: every step was observed";

type Fact = readonly [name: string, of: (rank: RankView) => string, title?: string];

const FACTS: readonly Fact[] = [
  ["state", stateText],
  [
    "client",
    (rank) => (rank.address === "" ? "–" : rank.address),
    "IP address and port of the training process",
  ],
  ["step", (rank) => String(rank.step)],
  ["hits", (rank) => grouped(rank.hits)],
  [
    "speed with Sonde",
    (rank) => speedText(rank.seconds, NO_STEP),
    "Median of recent steps that were observed like the last one, without pauses",
  ],
  [
    "speed without Sonde",
    withoutSonde,
    "Median of the latest steps in which Sonde observed nothing, without pauses",
  ],
  ["Sonde’s cost", cost, "Step time with Sonde divided by step time without"],
];

const METADATA: readonly (readonly [name: string, of: (data: Metadata) => string])[] = [
  ["host", (data) => data.host],
  ["process", (data) => String(data.pid)],
  ["device", (data) => data.device],
  ["framework", (data) => `${data.framework} ${data.framework_version}`],
  ["Sonde", (data) => data.sonde_version],
  ["Python", (data) => data.python_version],
  ["script", (data) => [data.script, ...data.arguments].join(" ")],
  ["directory", (data) => data.working_directory],
  ["started", (data) => (data.started > 0 ? new Date(data.started * 1000).toLocaleString() : "–")],
];

/** What a dump knows of the training that wrote it; the other facts are of a process that runs. */
const FACTS_OF_DUMP: ReadonlySet<string> = new Set([
  "step",
  "hits",
  "device",
  "framework",
  "Sonde",
  "Python",
  "script",
  "directory",
]);

/** A table of facts with a column for each rank. */
function Facts({
  ranks,
  isDump,
}: {
  readonly ranks: readonly RankView[];
  readonly isDump: boolean;
}): JSX.Element {
  const more = [...new Set(ranks.flatMap((each) => Object.keys(each.metadata?.extra ?? {})))];
  const known: readonly Fact[] = [
    ...FACTS,
    ...METADATA.map(([name, of]): Fact => [
      name,
      (rank) => (rank.metadata === null ? "–" : of(rank.metadata)),
    ]),
  ];
  const isShown = ([name, of]: Fact): boolean =>
    !isDump || (FACTS_OF_DUMP.has(name) && ranks.some((each) => of(each) !== ""));
  const shown: readonly Fact[] = [
    ...known.filter(isShown),
    ...more.map((name): Fact => [name, (rank) => rank.metadata?.extra[name] ?? "–"]),
  ];
  return (
    <div class="facts">
      <table class="metadata">
        <thead>
          <tr>
            <td />
            {ranks.map((each) => (
              <th key={each.rank} scope="col">
                <span class={`dot ${each.state}`} /> rank {each.rank}
                {each.metadata !== null && ` of ${each.metadata.world_size}`}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(([name, of, title]) => (
            <tr key={name} title={title}>
              <th scope="row">{name}</th>
              {ranks.map((each) => (
                <td key={each.rank}>{of(each)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
