// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { SourceLines } from "../../src/panels/SourceLines";
import { go, place } from "../../src/state/store";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const LINES = [
  { file: "/home/me/train.py", line: 12, code: "    loss = f(net(x), y)", ops: 1200 },
  { file: "/home/me/net.py", line: 3, code: "return self.fc(x)", ops: 1 },
];

test("each line has its code, its file without the folder, and the number of its ops", async () => {
  answer({ "GET /runs/r/sources": () => ({ lines: LINES }) });
  show(RUN);
  render(<SourceLines />);
  await waitFor(() => expect(screen.getAllByRole("option")).toHaveLength(2));
  const [first] = screen.getAllByRole("option");
  expect(first?.querySelector("code")?.textContent).toBe("loss = f(net(x), y)");
  expect(first?.querySelector(".under")?.textContent).toBe("train.py:12");
  expect(first?.querySelector(".count")?.textContent).toBe("1,200");
});

test("a click lists the ops of the line", async () => {
  answer({ "GET /runs/r/sources": () => ({ lines: LINES }) });
  show(RUN);
  go({ listing: "lines" });
  render(<SourceLines />);
  await waitFor(() => screen.getByText("return self.fc(x)"));
  await userEvent.click(screen.getByText("return self.fc(x)"));
  expect(place.value).toMatchObject({ file: "/home/me/net.py", line: 3, listing: "ops" });
});

test("the query goes to the server, and no match is said", async () => {
  answer({ "GET /runs/r/sources": () => ({ lines: [] }) });
  show(RUN);
  go({ lineQuery: "conv" });
  render(<SourceLines />);
  await waitFor(() => screen.getByText("No line matches"));
  expect(sent.at(-1)?.query.get("query")).toBe("conv");
});

test("an error of the server is shown", async () => {
  show(RUN);
  render(<SourceLines />);
  await waitFor(() => screen.getByText("no answer to /runs/r/sources"));
});
