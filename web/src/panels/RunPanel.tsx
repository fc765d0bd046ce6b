import type { JSX } from "preact";
import type { RankView } from "../wire";
import { api } from "../state/api";
import { counted, grouped, seconds } from "../state/numbers";
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
        <button type="button" onClick={() => void attempt(() => forget(current.id))}>
          Forget this run
        </button>
      )}
      <div class="rank-cards">
        {current.ranks.map((each) => (
          <RankCard key={each.rank} rank={each} />
        ))}
      </div>
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

async function forget(id: string): Promise<void> {
  await api.forget(id);
  runs.value = runs.value.filter((each) => each.id !== id);
  chooseRun("");
}

function speed(rank: RankView): string {
  const { seconds_bare: bare, seconds_observed: observed } = rank;
  if (bare !== null && observed !== null && bare > 0) return `${(observed / bare).toFixed(2)}×`;
  return "–";
}

function RankCard({ rank }: { rank: RankView }): JSX.Element {
  const data = rank.metadata;
  const rows: (readonly [string, string])[] = [
    ["state", rank.message === "" ? rank.state : `${rank.state}: ${rank.message}`],
    ["step", String(rank.step)],
    ["hits", grouped(rank.hits)],
    ["step without op capture", seconds(rank.seconds_bare)],
    ["step with op capture", seconds(rank.seconds_observed)],
    ["cost of capture", speed(rank)],
  ];
  if (data !== null) {
    rows.push(
      ["host", data.host],
      ["process", String(data.pid)],
      ["device", data.device],
      [data.framework, data.framework_version],
      ["Sonde", data.sonde_version],
      ["Python", data.python_version],
      ["script", [data.script, ...data.arguments].join(" ")],
      ["directory", data.working_directory],
      ["started", data.started > 0 ? new Date(data.started * 1000).toLocaleString() : "–"],
      ...Object.entries(data.extra),
    );
  }
  return (
    <table class="metadata">
      <caption>
        <span class={`dot ${rank.state}`} /> rank {rank.rank}
        {data !== null && ` of ${data.world_size}`}
      </caption>
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
