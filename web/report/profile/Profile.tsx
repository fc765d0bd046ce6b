import type { JSX } from "preact";
import { bytes, percent, rate, time } from "../numbers";
import { Tiles } from "../parts";
import { tipped } from "../tip";
import { MemoryChart, ModuleFlame, StepChart, TimelineChart } from "./Charts";
import {
  PARTS,
  partName,
  placeText,
  totalOf,
  type Finding,
  type ProfileDocument,
} from "./document";
import { LineTable, ModuleTable, OpTable, TriedTable } from "./Tables";

/** The page of `sonde profile`. */
export function Profile({ data: profile }: { readonly data: ProfileDocument }): JSX.Element {
  const { summary, machine, memory } = profile;
  const rank = profile.ranks > 1 ? `, rank ${profile.rank} of ${profile.ranks}` : "";
  const versions = Object.entries(profile.versions).map((pair) => pair.join(" "));
  const tiles: (readonly [string, string])[] = [
    [time(summary.step_time), "a step"],
    ...(summary.profiled_step_time === summary.step_time
      ? []
      : ([[time(summary.profiled_step_time), "a step while it is profiled"]] as const)),
    [percent(summary.jitter), "spread of the steps"],
    [String(summary.outliers), summary.outliers === 1 ? "outlier" : "outliers"],
  ];
  if (memory !== null)
    tiles.push(
      [bytes(memory.peak), "peak memory of a step"],
      [bytes(memory.resident), "resident at its beginning"],
    );
  tiles.push(
    [`${rate(machine.flops.float32)}FLOP/s`, "of this machine in float32"],
    [`${rate(machine.bytes_per_second)}B/s`, "of this machine's memory"],
  );
  return (
    <>
      <h1>{profile.program.join(" ")}</h1>
      <p class="quiet">
        {profile.created}
        {rank}; {machine.processor}, {machine.threads} thread{machine.threads > 1 ? "s" : ""};{" "}
        {versions.join(", ")}
      </p>
      <Tiles tiles={tiles} />
      {profile.notes.map((note) => (
        <p class="quiet">note: {note}</p>
      ))}
      <h2>Where a step's time goes</h2>
      <Parts profile={profile} />
      <h2>Findings, greatest gain first</h2>
      {profile.findings.length > 0 && summary.undisturbed_step_time != null && (
        <p class="quiet">
          A step without delays by other programs takes {time(summary.undisturbed_step_time)}, the
          sum of the medians of its parts: gains are shares of it, unless the finding is a wait.
        </p>
      )}
      {profile.findings.length === 0 && (
        <p>No finding: nothing that was measured would make a step 5 % shorter.</p>
      )}
      {profile.findings.map((finding, place) => (
        <FindingBox key={place} finding={finding} />
      ))}
      {profile.worth_trying.map((hint) => (
        <p class="quiet">worth a trial, not measured: {hint}</p>
      ))}
      {profile.tried.length > 0 && <h2>Tried</h2>}
      {profile.tried.length > 0 && <TriedTable tried={profile.tried} />}
      <h2>Steps</h2>
      <div class="quiet">Pale steps were not profiled. A dot marks an outlier.</div>
      <StepChart steps={profile.steps} />
      <h2>One step in detail</h2>
      <TimelineChart timeline={profile.timeline} />
      <h2>Modules</h2>
      <div class="quiet">
        Width is time, colour the share of forward and backward. Click a module to enlarge it, again
        to return.
      </div>
      <ModuleFlame profile={profile} />
      <ModuleTable profile={profile} />
      <h2>Operators</h2>
      <OpTable profile={profile} />
      <h2>Lines of your code</h2>
      <LineTable profile={profile} />
      <h2>Memory</h2>
      <MemoryChart memory={memory} />
    </>
  );
}

function Parts({ profile }: { readonly profile: ProfileDocument }): JSX.Element {
  const total = totalOf(profile);
  const seconds = profile.summary.parts;
  return (
    <>
      <div class="quiet">mean of the profiled steps without outliers: {time(total)}</div>
      <div class="bar">
        {PARTS.map((part) => (
          <span
            key={part}
            style={{ flex: seconds[part] / total, background: `var(--${part})` }}
            {...tipped(`${partName(part)}: ${time(seconds[part])}`)}
          />
        ))}
      </div>
      <div class="legend">
        {PARTS.map((part) => (
          <span key={part}>
            <i style={{ background: `var(--${part})` }} />
            {partName(part)} {time(seconds[part])}, {percent(seconds[part] / total)}
          </span>
        ))}
      </div>
    </>
  );
}

function FindingBox({ finding }: { readonly finding: Finding }): JSX.Element {
  return (
    <div class={`card finding ${finding.severity}`}>
      <header>
        <b>{finding.rule}</b>
        <span class="gain">
          {time(finding.gain.seconds)} a step, {percent(finding.gain.share)}
          {finding.gain.share > 0 && finding.gain.share < 1 && (
            <> of {time(finding.gain.seconds / finding.gain.share)}</>
          )}
        </span>
        <span class="quiet">
          {finding.direction}; gain measured: {finding.gain.how}
        </span>
        <span class="mono">{placeText(finding.place)}</span>
      </header>
      {finding.place?.code && (
        <p>
          <code>{finding.place.code}</code>
        </p>
      )}
      <p>{finding.message}</p>
      <p>→ {finding.advice}</p>
      <details>
        <summary>evidence</summary>
        <pre>{JSON.stringify(finding.evidence, null, 1)}</pre>
      </details>
    </div>
  );
}
