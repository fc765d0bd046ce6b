import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import type { Metadata, RankView } from "../wire";
import { api } from "../state/api";
import { brief, counted, grouped, seconds } from "../state/numbers";
import { chooseRun, run, runs } from "../state/store";
import { attempt } from "../state/toasts";
import { Empty } from "../parts/Empty";

/** What is known of the run and its processes. */
export function RunPanel(): JSX.Element {
  const current = run.value;
  if (current === null) return <Empty title="No run" />;
  const isOver = current.ranks.every((each) => each.state === "ended" || each.state === "lost");
  return (
    <section class="scroll run-panel" aria-label="Run">
      <h3>{current.title}</h3>
      <p class="quiet">
        {current.kind === "dump" ? "A dump on disk" : "A live training"}, {counted(current.ranks.length, "rank")}
      </p>
      {current.kind === "live" && isOver && (
        <ForgetButton key={current.id} id={current.id} />
      )}
      <Facts ranks={current.ranks} />
      <h4>Messages</h4>
      {current.notices.length === 0 ? <p class="quiet">None.</p> : (
        <ul class="notices">
          {current.notices.map((notice, at) => (
            <li key={at}>{notice}</li>
          ))}
        </ul>
      )}
    </section>
  );
}

/** Asks once more: what is forgotten does not come back. */
function ForgetButton({ id }: { id: string }): JSX.Element {
  const isAsking = useSignal(false);
  if (!isAsking.value) {
    return (
      <button type="button" onClick={() => (isAsking.value = true)}>
        Forget this run
      </button>
    );
  }
  return (
    <p class="actions">
      Its graphs, hits and losses will be gone.
      <button type="button" class="small danger" onClick={() => void attempt(() => forget(id))}>
        Forget it
      </button>
      <button type="button" class="small" onClick={() => (isAsking.value = false)}>
        Keep it
      </button>
    </p>
  );
}

async function forget(id: string): Promise<void> {
  await api.forget(id);
  runs.value = runs.value.filter((each) => each.id !== id);
  chooseRun("");
}

/** Seconds of a step, and what that is in steps. */
function pace(value: number | null, otherwise: string): string {
  return value === null || value <= 0 ? otherwise : `${seconds(value)}, ${brief(1 / value)} steps/s`;
}

function withoutSonde({ bare_seconds: bare, is_bare_estimated: isEstimated }: RankView): string {
  return pace(bare, NO_STEP) + (isEstimated ? " (estimated)" : "");
}

function cost({ bare_seconds: bare, seconds: took }: RankView): string {
  return bare !== null && took !== null && bare > 0 ? `${(took / bare).toFixed(2)}×` : "–";
}

const NO_STEP = "not known: no step is over";

function stateText(rank: RankView): string {
  if (rank.message === "") return rank.state;
  return rank.message.startsWith(rank.state) ? rank.message : `${rank.state}: ${rank.message}`;
}

type Fact = readonly [name: string, of: (rank: RankView) => string, title?: string];

const FACTS: readonly Fact[] = [
  ["state", stateText],
  ["step", (rank) => String(rank.step)],
  ["hits", (rank) => grouped(rank.hits)],
  ["speed with Sonde", (rank) => pace(rank.seconds, NO_STEP), "The median of recent steps that were looked at as the last one was, pauses left out"],
  ["speed without Sonde", withoutSonde, "The same steps less what Sonde did in them: of steps whose ops were not observed, if there are any; else it is estimated"],
  ["Sonde’s cost", cost, "The step with Sonde divided by the step without"],
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

/** What is known of every rank, a column each. */
function Facts({ ranks }: { ranks: readonly RankView[] }): JSX.Element {
  const more = [...new Set(ranks.flatMap((each) => Object.keys(each.metadata?.extra ?? {})))];
  const rows: readonly Fact[] = [
    ...FACTS,
    ...METADATA.map(([name, of]): Fact => [name, (rank) => (rank.metadata === null ? "–" : of(rank.metadata))]),
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
          {rows.map(([name, of, title]) => (
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
