import type { JSX } from "preact";
import { api } from "../load/api";
import { useResource } from "../load/resource";
import { Empty } from "../parts/Empty";
import { run, throttledVersion } from "../state/store";
import { counted } from "../text/numbers";
import type { RanksView } from "../wire";
import { CheckTable } from "./CheckTable";
import { RankHits } from "./RankHits";
import { RankStates } from "./RankStates";
import { RankTensor } from "./RankTensor";

/** All ranks of a run as one: where they part, their states, one tensor on all of them. */
export function RanksTab(): JSX.Element {
  const current = run.value;
  const request = current === null || current.ranks.length < 2 ? null : current.id;
  const { data, error } = useResource(request, throttledVersion("status"), api.ranks);
  if (current === null || request === null)
    return <Empty title="One rank">This run has no other ranks to compare.</Empty>;
  return (
    <section class="scroll ranks-tab" aria-label="Ranks">
      <Verdict view={data} error={error} />
      <RankStates ranks={current.ranks} isLive={current.kind === "live"} />
      {data !== null && data.is_compared && <CheckTable view={data} />}
      <RankTensor id={current.id} placements={data?.placements ?? []} />
      <RankHits id={current.id} ranks={current.ranks.length} />
    </section>
  );
}

function Verdict({
  view,
  error,
}: {
  readonly view: RanksView | null;
  readonly error: string | null;
}): JSX.Element {
  if (error !== null) return <p class="error-line">{error}</p>;
  if (view === null) return <p class="quiet note">…</p>;
  if (!view.is_compared)
    return (
      <p class="quiet note">
        The ranks of this run are not compared: start it with <code>--check-ranks</code>.
      </p>
    );
  const found = view.checks.reduce((sum, each) => sum + each.findings.length, 0);
  const steps = counted(view.judged_steps, "step");
  const who = counted(view.ranks.length, "rank");
  return (
    <p class="ranks-verdict" role="status" aria-label="Comparison of the ranks">
      <span class={`pill ${found > 0 ? "failed" : "running"}`}>
        {found > 0 ? counted(found, "finding") : "no difference"}
      </span>{" "}
      {who} compared in {steps}
      {view.parted_step !== null && (
        <>
          ; <b>they part {partedText(view.parted_step)}</b>
        </>
      )}
    </p>
  );
}

function partedText(step: number): string {
  return step < 0 ? "before the first step" : `in step ${step}`;
}
