import type { JSX } from "preact";
import { Comparison } from "./compare/Comparison";
import { GraphView } from "./graph/GraphView";
import { HealthTab } from "./health/HealthTab";
import { dialog } from "./panels/dialogs";
import { Findings } from "./panels/Findings";
import { Headline } from "./panels/Headline";
import { Help } from "./panels/Help";
import { Hits } from "./panels/Hits";
import { LossPanel } from "./panels/LossPanel";
import { Banner, Toasts } from "./panels/Messages";
import { NodeList } from "./panels/NodeList";
import { NodeMenu } from "./panels/NodeMenu";
import { OpDetails } from "./panels/OpDetails";
import { Palette } from "./panels/Palette";
import { RuleDialog } from "./panels/RuleDialog";
import { RunPanel } from "./panels/RunPanel";
import { TerminateDialog } from "./panels/TerminateDialog";
import { TopBar } from "./panels/TopBar";
import { UnwatchedDialog } from "./panels/UnwatchedDialog";
import { WatchpointDialog } from "./panels/WatchpointDialog";
import { Watchpoints } from "./panels/Watchpoints";
import { Welcome } from "./panels/Welcome";
import { Empty } from "./parts/Empty";
import { RanksTab } from "./ranks/RanksTab";
import { Splitter } from "./parts/Splitter";
import { grouped } from "./text/numbers";
import type { Side, Tab } from "./state/place";
import { detailsColumn, leftWidth, lowerHeight, rightWidth } from "./state/preferences";
import { areRunsLoaded, go, place, rank, run, tab } from "./state/store";
import { TensorView } from "./tensor/TensorView";

export function App(): JSX.Element {
  return (
    <>
      {run.value !== null && <h1 class="only-spoken">Sonde: {run.value.title}</h1>}
      <TopBar />
      <Banner />
      <Headline />
      <Toasts />
      {run.value === null ? <Welcome isLoaded={areRunsLoaded.value} /> : <Workspace />}
      <NodeMenu />
      <OpenDialog />
    </>
  );
}

function Workspace(): JSX.Element {
  const isFolded = isRightFolded();
  const right = isFolded ? "26px" : `5px ${rightWidth.value}px`;
  return (
    <main
      class="workplace"
      style={{
        gridTemplateColumns: `${leftWidth.value}px 5px minmax(320px, 1fr) ${right}`,
      }}
    >
      <NodeList />
      <Splitter
        value={leftWidth}
        direction="column"
        sign={1}
        least={180}
        most={520}
        label="Width of the list"
      />
      <Centre />
      {isFolded ? <FoldedColumn /> : <RightColumn />}
    </main>
  );
}

/** The tabs of a dump that need no details beside them. */
const WIDE: readonly Tab[] = ["health", "compare", "loss", "run"];

/** Whether the column of details is folded: by the user, or because it would be empty. */
function isRightFolded(): boolean {
  if (detailsColumn.value !== "auto") return detailsColumn.value === "folded";
  const current = run.value;
  if (current?.kind !== "dump" || !WIDE.includes(tab.value)) return false;
  const hits = current.ranks.reduce((sum, each) => sum + each.hits, 0);
  return place.value.op === "" && hits === 0 && current.diagnosis === null;
}

/** The folded column of details: a button that unfolds it, and the number of hits. */
function FoldedColumn(): JSX.Element {
  const hits = rank.value?.hits ?? 0;
  return (
    <div class="folded">
      <button
        type="button"
        class="icon"
        aria-label="Show the details"
        title="Show op, hits and watchpoints"
        aria-expanded="false"
        onClick={() => detailsColumn.set("shown")}
      >
        ‹
      </button>
      {hits > 0 && <span class="hit-count">{hits}</span>}
    </div>
  );
}

function RightColumn(): JSX.Element {
  return (
    <>
      <Splitter
        value={rightWidth}
        direction="column"
        sign={-1}
        least={260}
        most={640}
        label="Width of the details"
      />
      <div
        class="right"
        style={{ gridTemplateRows: `minmax(120px, 1fr) 5px ${lowerHeight.value}px` }}
      >
        <OpDetails />
        <Splitter
          value={lowerHeight}
          direction="row"
          sign={-1}
          least={120}
          most={560}
          label="Height of hits and watchpoints"
        />
        <Lower />
      </div>
    </>
  );
}

const TABS: readonly (readonly [Tab, string, string])[] = [
  ["health", "Health", "e"],
  ["compare", "Compare", "m"],
  ["graph", "Graph", "g"],
  ["tensor", "Tensor", "t"],
  ["loss", "Loss", "l"],
  ["ranks", "Ranks", "r"],
  ["run", "Run", "i"],
];

function isOffered(each: Tab): boolean {
  if (each === "compare") return run.value?.peer != null;
  return each !== "ranks" || (run.value?.ranks.length ?? 0) > 1;
}

function Centre(): JSX.Element {
  return (
    <section class="pane centre">
      <div class="tabs" role="tablist" aria-label="View">
        {TABS.filter(([value]) => isOffered(value)).map(([value, text, key]) => (
          <button
            key={value}
            type="button"
            role="tab"
            aria-selected={tab.value === value}
            title={`${text} (${key})`}
            onClick={() => go({ tab: value })}
          >
            {text}
          </button>
        ))}
      </div>
      <Recording />
      <Tabbed shown={tab.value} />
    </section>
  );
}

/** How far the first step is, whose graph is not known before it has ended. */
function Recording(): JSX.Element | null {
  const count = rank.value?.recording ?? null;
  if (count === null) return null;
  return (
    <p class="recording" role="status">
      Recording the graph: {grouped(count)} ops so far
    </p>
  );
}

function Tabbed({ shown }: { shown: Tab }): JSX.Element {
  switch (shown) {
    case "health":
      return <HealthTab />;
    case "compare":
      return <Comparison />;
    case "graph":
      return <GraphView />;
    case "tensor":
      return place.value.op.endsWith("/") ? (
        <Empty title="A module is selected">
          Select an op or a parameter to see its values; the list on the right has those of the
          module.
        </Empty>
      ) : (
        <TensorView />
      );
    case "loss":
      return <LossPanel />;
    case "ranks":
      return <RanksTab />;
    case "run":
      return <RunPanel />;
  }
}

function Lower(): JSX.Element {
  const { side } = place.value;
  const hits = (run.value?.ranks ?? []).reduce((sum, each) => sum + each.hits, 0);
  const watched = run.value?.watchpoints.length ?? 0;
  const tabs: readonly (readonly [Side, string, number])[] = [
    ["hits", "Hits", hits],
    ["watchpoints", "Watchpoints", watched],
    ["findings", "Findings", run.value?.diagnosis?.findings.length ?? 0],
  ];
  return (
    <section class="pane lower">
      <div class="tabs">
        <div class="tab-list" role="tablist" aria-label="Hits, watchpoints and findings">
          {tabs.map(([value, text, count]) => (
            <button
              key={value}
              type="button"
              role="tab"
              aria-selected={side === value}
              onClick={() => go({ side: value })}
            >
              {text}{" "}
              {count > 0 && (
                <span class={value === "watchpoints" ? "count" : "hit-count"}>
                  {grouped(count)}
                </span>
              )}
            </button>
          ))}
        </div>
        <span class="spacer" />
        <button
          type="button"
          class="icon fold"
          aria-label="Hide the details"
          title="Hide this column"
          aria-expanded="true"
          onClick={() => detailsColumn.set("folded")}
        >
          ›
        </button>
      </div>
      <Stopped />
      {side === "hits" && <Hits />}
      {side === "watchpoints" && <Watchpoints />}
      {side === "findings" && <Findings />}
    </section>
  );
}

/** Where the training is paused, if that is a breakpoint; the headline is about a hit. */
function Stopped(): JSX.Element | null {
  const current = rank.value;
  if (current?.state !== "paused" || current.message === "") return null;
  if (current.reason !== "breakpoint") return null;
  return (
    <p class="stopped" role="status" title={current.message}>
      {current.message}
    </p>
  );
}

function OpenDialog(): JSX.Element | null {
  const open = dialog.value;
  if (open === null) return null;
  switch (open.kind) {
    case "help":
      return <Help />;
    case "palette":
      return <Palette />;
    case "rule":
      return <RuleDialog key={open.rule} rule={open.rule} />;
    case "terminate":
      return <TerminateDialog />;
    case "unwatched":
      return <UnwatchedDialog />;
    case "watchpoint":
      return (
        <WatchpointDialog
          key={open.id ?? "new"}
          id={open.id}
          draft={open.draft}
          isForAll={open.isForAll}
        />
      );
  }
}
