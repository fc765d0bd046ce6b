import type { JSX } from "preact";
import { Dialog } from "../parts/Dialog";
import { closeDialog } from "./dialogs";

const KEYS: readonly (readonly [string, string])[] = [
  ["space, F8", "continue, or pause"],
  ["s", "run the number of steps in the field"],
  ["n", "run the next op"],
  ["o", "run to the selected op"],
  [
    "a, Shift+F10",
    "actions of the selected op, such as “Continue to”; also a right click on a node",
  ],
  ["x", "terminate the training (asks first)"],
  ["/", "search ops; ↓ moves to the results"],
  ["j, k", "next and previous op in the list"],
  ["↑, ↓, ←, →", "in the list: move, close and open; Enter selects an op or scope"],
  ["v", "tick the selected op for a watchpoint"],
  ["c", "go to the current op"],
  ["w", "new watchpoint"],
  ["e, g, t, l, i", "health, graph, tensor, loss, run information"],
  ["m", "the comparison of two dumps"],
  ["r", "all ranks together"],
  ["h, p", "hits, watchpoints"],
  ["Ctrl-K", "find an op, module, parameter, line, step, run or action"],
  ["arrows", "in the graph: walk along edges, into and out of scopes; with Shift: move the view"],
  ["Enter", "in the graph: open or close the scope or group"],
  ["+, −, 0", "in the graph: zoom, show everything"],
  ["arrows, +, −, 0, Enter", "in the map of layers: choose a cell, zoom, show all, open the cell"],
  ["Esc", "leave a field, close a dialog; in the graph: select nothing"],
  ["?", "show this list"],
];

export function Help(): JSX.Element {
  return (
    <Dialog title="Keyboard" onClose={() => closeDialog()}>
      <table class="keys">
        <tbody>
          {KEYS.map(([key, meaning]) => (
            <tr key={key}>
              <th scope="row">
                {key.split(", ").map((each) => (
                  <kbd key={each}>{each}</kbd>
                ))}
              </th>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="quiet">
        <code>sonde ctl</code> does the same from a terminal. Programs can use the server's{" "}
        <a href="api/v1/docs">HTTP interface</a>.
      </p>
    </Dialog>
  );
}
