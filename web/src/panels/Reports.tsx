import type { JSX } from "preact";
import type { RunView } from "../wire";
import { runs } from "../state/store";
import { CommandLine } from "../parts/CommandLine";

/** A word as a shell reads it. */
function shellWord(text: string): string {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The commands that write the other pages about a run, each with what the page shows. */
export function reportCommands(run: RunView): readonly (readonly [string, string])[] {
  if (run.kind === "dump") {
    const peer = runs.value.find(({ id }) => id === run.peer);
    const other = peer === undefined ? "OTHER" : shellWord(peer.title);
    const pair = `${shellWord(run.title)} ${other}`;
    return [
      [`sonde compare ${pair} --html compare.html`, "This dump and another one, op by op"],
      [`sonde loss ${pair} --html loss.html`, "Their loss curves"],
    ];
  }
  const metadata = run.ranks[0]?.metadata ?? null;
  if (metadata === null) return [];
  const script = [metadata.script, ...metadata.arguments].map(shellWord).join(" ");
  return [
    [`sonde profile ${script}`, "Where the time of a step goes"],
    [`sonde diagnose --html diagnosis.html ${script}`, "Why the training learns badly"],
  ];
}

/** The other pages about a run, which commands write. */
export function Reports({ of }: { readonly of: RunView }): JSX.Element | null {
  const commands = reportCommands(of);
  if (commands.length === 0) return null;
  return (
    <section aria-label="Reports">
      <h4>Reports</h4>
      {commands.map(([command, what]) => (
        <div key={command}>
          <p class="quiet">{what}:</p>
          <CommandLine text={command} />
        </div>
      ))}
    </section>
  );
}
