// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { reportCommands } from "../../src/panels/Reports";
import { RunPanel } from "../../src/panels/RunPanel";
import { runs } from "../../src/state/store";
import { answer, RANK, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const METADATA = {
  host: "vm",
  pid: 1,
  rank: 0,
  world_size: 1,
  device: "cpu",
  framework: "torch",
  framework_version: "2",
  sonde_version: "0",
  python_version: "3",
  script: "train.py",
  arguments: [],
  working_directory: "/",
  started: 0,
  extra: {},
};
const ended = { ...RANK, state: "ended", exit_code: 0 } as const;

function fact(name: string): readonly (string | null)[] {
  const row = screen.getByRole("rowheader", { name }).closest("tr");
  return [...(row?.querySelectorAll("td") ?? [])].map((cell) => cell.textContent);
}

test("the state of each rank comes with its reason", () => {
  const paused = { ...RANK, rank: 1, message: "paused by a script" };
  show({ ...RUN, ranks: [ended, paused, { ...RANK, rank: 2, state: "running" }] });
  render(<RunPanel />);
  expect(fact("state")).toEqual([
    "ended with exit code 0",
    "paused: paused by a script",
    "running",
  ]);
});

test("the commands that write reports about a training or a dump are listed", () => {
  const metadata = { ...METADATA, script: "my train.py", arguments: ["--lr", "0.1"] };
  expect(reportCommands({ ...RUN, ranks: [{ ...RANK, metadata }] })[0]?.[0]).toBe(
    "sonde profile 'my train.py' --lr 0.1",
  );
  const dump = { ...RUN, id: "dump", kind: "dump", title: "/tmp/a" } as const;
  expect(reportCommands(dump)[1]?.[0]).toBe("sonde loss /tmp/a OTHER --html loss.html");
  show({ ...dump, id: "b", title: "/tmp/b" });
  expect(reportCommands({ ...dump, peer: "b" })[0]?.[0]).toBe(
    "sonde compare /tmp/a /tmp/b --html compare.html",
  );
  expect(reportCommands({ ...RUN, ranks: [{ ...RANK, metadata: null }] })).toEqual([]);
});

test("the address of each training process is shown", () => {
  show({ ...RUN, ranks: [RANK, { ...RANK, rank: 1, address: "" }] });
  render(<RunPanel />);
  expect(fact("client")).toEqual(["127.0.0.1:41234", "–"]);
});

test("the cost of Sonde is the ratio of the step times, and unknown while all steps are observed", () => {
  const timed = { ...RANK, seconds: 0.3, bare_seconds: 0.2 };
  show({ ...RUN, ranks: [timed, RANK, { ...RANK, seconds: 0.3 }] });
  render(<RunPanel />);
  expect(fact("Sonde’s cost")).toEqual(["1.50×", "–", "–"]);
  expect(fact("speed without Sonde")[0]).toBe("200 ms, 5 steps/s");
  expect(fact("speed without Sonde")[2]).toBe("not known: every step was observed");
  expect(fact("speed with Sonde")[1]).toContain("not known");
});

test("a run can be removed once all of its ranks have ended, after a confirmation", async () => {
  answer({ "DELETE /runs/r": () => null });
  show({ ...RUN, ranks: [ended, { ...RANK, rank: 1 }] });
  render(<RunPanel />);
  expect(screen.queryByRole("button", { name: "Remove this run" })).toBeNull();
  show({ ...RUN, ranks: [ended] });
  await userEvent.click(await screen.findByRole("button", { name: "Remove this run" }));
  await userEvent.click(screen.getByRole("button", { name: "Cancel" }));
  expect(sent).toEqual([]);
  await userEvent.click(screen.getByRole("button", { name: "Remove this run" }));
  await userEvent.click(screen.getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(runs.value).toEqual([]));
  expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual(["DELETE /runs/r"]);
});

test("one step runs unobserved when the user asks for the speed without Sonde", async () => {
  const measuring = { ...RUN, ranks: [{ ...RANK, is_measuring: true }] };
  answer({ "POST /runs/r/measure-speed": () => measuring });
  show({ ...RUN, ranks: [RANK] });
  render(<RunPanel />);
  expect(screen.queryByRole("status")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Measure the speed without Sonde" }));
  expect((await screen.findByRole("status")).textContent).toBe(
    "One step will run unobserved after the training continues.",
  );
  expect(screen.getByRole("button", { name: /Measure/ })).toHaveProperty("disabled", true);
  expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
    "POST /runs/r/measure-speed",
  ]);
});

test("the speed of a dump or of an ended run cannot be measured", () => {
  for (const each of [
    { ...RUN, ranks: [ended] },
    { ...RUN, kind: "dump" as const },
  ]) {
    show(each);
    const { unmount } = render(<RunPanel />);
    expect(screen.queryByRole("button", { name: /Measure/ })).toBeNull();
    unmount();
  }
});

test("a dump that says when its training started has one row for it", () => {
  const metadata = { ...METADATA, started: 0, extra: { started: "2026-11-19T02:02:15+00:00" } };
  show({ ...RUN, kind: "dump", ranks: [{ ...RANK, metadata }] });
  render(<RunPanel />);
  expect(screen.getAllByRole("rowheader", { name: "started" })).toHaveLength(1);
  expect(fact("started")).toEqual(["2026-11-19T02:02:15+00:00"]);
});
