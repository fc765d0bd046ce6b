import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api } from "../../load/api";
import { useResource } from "../../load/resource";
import { TextField } from "../../parts/TextField";
import { counted, grouped } from "../../text/numbers";
import type { SummaryLog } from "../../wire";
import { useGrowth } from "../growth";
import { HistogramSteps } from "./HistogramSteps";
import { PictureSteps } from "./PictureSteps";
import { ScalarChart } from "./ScalarChart";
import { lineageRows, tagGroups, type TaggedLogs, type TagKind } from "./tags";
import { WhenVisible } from "./WhenVisible";

const NONE: object = {};
const FEW_TAGS = 12;
const KINDS: readonly (readonly [TagKind, string])[] = [
  ["scalars", "Scalars"],
  ["histograms", "Histograms"],
  ["images", "Pictures"],
];

/** Whether the server has event files; null until that is known. */
export function useLogs(): readonly SummaryLog[] | null {
  const [newest, setNewest] = useState<number | null>(null);
  const growth = useGrowth(newest !== null, newest);
  const { data } = useResource(NONE, growth, api.logs);
  const logs = data?.logs ?? null;
  const last = Math.max(-1, ...(logs ?? []).map((log) => log.last_step ?? 0));
  useEffect(() => setNewest(last < 0 ? null : last), [last]);
  return logs;
}

/** The event files of SummaryCollector and of TensorBoard: what loads is what is on the screen. */
export function EventLogs({ logs }: { readonly logs: readonly SummaryLog[] }): JSX.Element | null {
  const [hidden, setHidden] = useState<readonly string[]>([]);
  const [text, setText] = useState("");
  if (logs.length === 0) return null;
  const shown = logs.filter(({ path }) => !hidden.includes(path));
  const version = Math.max(0, ...shown.map((log) => log.last_step ?? 0));
  const lineage = lineageRows(shown);
  return (
    <section class="event-logs" aria-label="Event files">
      <h3>Event files</h3>
      <div class="health-tools">
        {logs.map((log) => (
          <label key={log.path} class="check" title={log.path}>
            <input
              type="checkbox"
              checked={!hidden.includes(log.path)}
              onChange={(event) =>
                setHidden(
                  event.currentTarget.checked
                    ? hidden.filter((path) => path !== log.path)
                    : [...hidden, log.path],
                )
              }
            />{" "}
            {log.name}
            <span class="quiet">
              {log.last_step === null ? " · empty" : ` · step ${grouped(log.last_step)}`}
              {log.status === "" ? "" : ` · ${log.status}`}
            </span>
          </label>
        ))}
        <TextField
          label="Tags that contain"
          placeholder="tags that contain"
          value={text}
          onDone={setText}
          onType={setText}
        />
      </div>
      {shown
        .flatMap(({ problems }) => problems)
        .map((problem) => (
          <p key={problem} class="error-line">
            {problem}
          </p>
        ))}
      {lineage.length > 0 && (
        <details>
          <summary>Lineage: {counted(lineage.length, "fact")}</summary>
          <LineageTable logs={shown} rows={lineage} />
        </details>
      )}
      {KINDS.map(([kind, title]) => (
        <Kind key={kind} kind={kind} title={title} {...{ logs: shown, text, version }} />
      ))}
    </section>
  );
}

function LineageTable({
  logs,
  rows,
}: {
  readonly logs: readonly SummaryLog[];
  readonly rows: ReturnType<typeof lineageRows>;
}): JSX.Element {
  return (
    <table class="lineage">
      <thead>
        <tr>
          <th scope="col" />
          {logs.map((log) => (
            <th key={log.path} scope="col">
              {log.name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ name, values }) => (
          <tr key={name} class={new Set(values).size > 1 ? "differs" : ""}>
            <th scope="row">{name}</th>
            {values.map((value, at) => (
              <td key={at}>{value}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface KindProps {
  readonly kind: TagKind;
  readonly title: string;
  readonly logs: readonly SummaryLog[];
  readonly text: string;
  readonly version: number;
}

/** The tags of one kind, in groups that unfold; few tags, and the first group, are open. */
function Kind({ kind, title, logs, text, version }: KindProps): JSX.Element {
  const groups = tagGroups(logs, kind, text);
  const count = groups.reduce((sum, each) => sum + each.tags.length, 0);
  return (
    <>
      {groups.map(({ name, tags }, at) => (
        <details key={`${kind} ${name}`} open={at === 0 || text !== "" || count <= FEW_TAGS}>
          <summary>
            {title}
            {name === "" ? "" : `: ${name}`}{" "}
            <span class="quiet">{counted(tags.length, "tag")}</span>
          </summary>
          <div class="tag-cards">{tags.flatMap((of) => cards(kind, of, version))}</div>
        </details>
      ))}
    </>
  );
}

function cards(kind: TagKind, of: TaggedLogs, version: number): readonly JSX.Element[] {
  const { tag, logs } = of;
  if (kind === "scalars")
    return [
      <Card key={tag} title={tag}>
        <WhenVisible height={180}>{() => <ScalarChart of={of} version={version} />}</WhenVisible>
      </Card>,
    ];
  const Shown = kind === "histograms" ? HistogramSteps : PictureSteps;
  return logs.map((log) => (
    <Card key={`${tag} ${log.path}`} title={tag} quiet={log.name}>
      <WhenVisible height={150}>
        {() => <Shown log={log.number} tag={tag} version={version} />}
      </WhenVisible>
    </Card>
  ));
}

function Card({
  title,
  quiet = "",
  children,
}: {
  readonly title: string;
  readonly quiet?: string;
  readonly children: ComponentChildren;
}): JSX.Element {
  return (
    <section aria-label={`${title} ${quiet}`.trim()}>
      <h4>
        {title} <span class="quiet">{quiet}</span>
      </h4>
      {children}
    </section>
  );
}
