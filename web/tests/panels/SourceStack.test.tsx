// @vitest-environment happy-dom
import { render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { SourceStack } from "../../src/panels/SourceStack";
import { go, place } from "../../src/state/store";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const INNER = { file: "/me/net.py", line: 12, function: "forward", code: "    x = log(x)" };
const OUTER = { file: "/me/train.py", line: 30, function: "main", code: "    loss = net(x)" };

function lines(): readonly string[] {
  return [...document.querySelectorAll(".code > div")].map((each) => each.textContent);
}

test("the code around the innermost line is shown, and the line is marked", async () => {
  answer({
    "GET /runs/r/code": () => ({
      file: INNER.file,
      first: 11,
      lines: ["    def forward(x):", "        x = log(x)", ""],
    }),
  });
  show(RUN);
  render(<SourceStack sources={[INNER, OUTER]} />);
  await waitFor(() => expect(lines()).toEqual(["11def forward(x):", "12    x = log(x)", "13 "]));
  expect(document.querySelector(".this-line")?.textContent).toContain("x = log(x)");
  expect(sent[0]?.query.get("line")).toBe("12");
});

test("another frame is chosen by a click, and has only its own line without the file", async () => {
  show(RUN);
  render(<SourceStack sources={[INNER, OUTER]} />);
  expect(lines()).toEqual(["12x = log(x)"]);
  await userEvent.click(screen.getByRole("button", { name: /train.py:30/ }));
  expect(place.value.frame).toBe(1);
  expect(lines()).toEqual(["30loss = net(x)"]);
});

test("a frame of an earlier op that this op lacks is replaced by the outermost", () => {
  show(RUN);
  go({ frame: 5 });
  render(<SourceStack sources={[INNER, OUTER]} />);
  expect(lines()).toEqual(["30loss = net(x)"]);
});

test("the ops of a line are listed without the filters of before", async () => {
  show(RUN);
  go({ query: "relu", onlyHits: true });
  render(<SourceStack sources={[INNER]} />);
  await userEvent.click(screen.getByRole("button", { name: /ops of this line/ }));
  expect(place.value).toMatchObject({
    file: "/me/net.py",
    line: 12,
    query: "",
    onlyHits: false,
    listing: "ops",
  });
});
