import type { JSX } from "preact";
import type { Metadata } from "../wire";

const FACTS: readonly (readonly [string, (of: Metadata) => string])[] = [
  ["script", (of) => of.script],
  ["arguments", (of) => of.arguments.join(" ")],
  ["working directory", (of) => of.working_directory],
];
/** Facts of a dump, which its server sends under these names. */
const MORE = ["started", "data", "checkpoints read", "checkpoints written", "summaries"];

/** Which script, arguments, data and checkpoints made the run. */
export function Lineage({ of }: { readonly of: Metadata }): JSX.Element {
  const rows = [
    ...FACTS.map(([name, value]) => [name, value(of)] as const),
    ...MORE.map((name) => [name, of.extra[name] ?? ""] as const),
  ].filter(([, value]) => value !== "");
  return (
    <details class="run-lineage">
      <summary>
        Lineage <span class="quiet">{`${of.script} ${of.arguments.join(" ")}`}</span>
      </summary>
      <table class="lineage">
        <tbody>
          {rows.map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
