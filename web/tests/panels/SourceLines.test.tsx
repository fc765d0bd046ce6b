// @vitest-environment happy-dom
import { render, screen } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { SourceLines } from "../../src/panels/SourceLines";
import { go, place } from "../../src/state/store";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const LINE = { file: "/me/net.py", line: 12, function: "forward", code: "  x = log(x)", ops: 1234 };

test("a line shows its code and the number of its ops, and a click lists those", async () => {
  answer({ "GET /runs/r/sources": () => ({ total: 1, lines: [LINE] }) });
  show(RUN);
  render(<SourceLines />);
  const option = await screen.findByRole("option");
  expect(option.textContent).toBe("x = log(x)net.py:121,234");
  await userEvent.click(option);
  expect(place.value).toMatchObject({ file: "/me/net.py", line: 12, listing: "ops" });
});

test("the words of the search are sent, and no match is said", async () => {
  answer({ "GET /runs/r/sources": () => ({ total: 0, lines: [] }) });
  show(RUN);
  go({ lineQuery: "sqrt" });
  render(<SourceLines />);
  expect(await screen.findByText("No line matches")).toBeDefined();
  expect(sent.at(-1)?.query.get("query")).toBe("sqrt");
});

test("an error of the server is shown instead of an empty list", async () => {
  show(RUN);
  render(<SourceLines />);
  expect(await screen.findByText("no answer to /runs/r/sources")).toBeDefined();
  expect(screen.queryByText("No line matches")).toBeNull();
});
