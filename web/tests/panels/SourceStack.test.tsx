// @vitest-environment happy-dom
import { act, render, screen, waitFor } from "@testing-library/preact";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { SourceStack } from "../../src/panels/SourceStack";
import { go, place } from "../../src/state/store";
import { answer, RUN, sent, show, useEmptyPage } from "./page";

useEmptyPage();

const INNER = {
  file: "/me/net.py",
  line: 7,
  function: "forward",
  code: "y = torch.log(x)",
  library: "",
};
const OUTER = {
  file: "/me/train.py",
  line: 30,
  function: "main",
  code: "loss = net(x)",
  library: "",
};

const shownCode = (): readonly (string | null)[] =>
  [...document.querySelectorAll("pre.code code")].map((each) => each.textContent);

test("the code around the innermost line is shown, and the line itself is marked", async () => {
  const lines = ["    def forward(self, x):", "        y = torch.log(x)", "        return y"];
  answer({ "GET /runs/r/code": () => ({ file: INNER.file, first: 6, lines }) });
  show(RUN);
  render(<SourceStack sources={[INNER, OUTER]} />);
  await waitFor(() => expect(shownCode()).toHaveLength(3));
  expect(document.querySelector(".this-line")?.textContent).toBe("7    y = torch.log(x)");
  expect(sent.at(-1)?.query.get("file")).toBe("/me/net.py");
});

test("without the file, the line that came with the graph is shown", () => {
  show(RUN);
  render(<SourceStack sources={[INNER]} />);
  expect(shownCode()).toEqual(["y = torch.log(x)"]);
});

test("another frame of the stack can be unfolded", async () => {
  show(RUN);
  render(<SourceStack sources={[INNER, OUTER]} />);
  await userEvent.click(screen.getByRole("button", { name: "train.py:30 main" }));
  expect(place.value.frame).toBe(1);
  expect(shownCode()).toEqual(["loss = net(x)"]);
});

test("a frame beyond the end of a shorter stack shows the last one", () => {
  show(RUN);
  go({ frame: 5 });
  render(<SourceStack sources={[INNER, OUTER]} />);
  expect(shownCode()).toEqual(["loss = net(x)"]);
});

test("the ops of a line are listed without the other filters", async () => {
  show(RUN);
  go({ query: "relu", phase: "backward", onlyHits: true });
  render(<SourceStack sources={[INNER]} />);
  await userEvent.click(screen.getByRole("button", { name: "ops of this line" }));
  expect(place.value).toMatchObject({
    file: "/me/net.py",
    line: 7,
    query: "",
    phase: "",
    onlyHits: false,
  });
});

test("the line of the op that the headline names is scrolled into view, no other", async () => {
  const scrolled: (string | null)[] = [];
  const scroll = vi.spyOn(Element.prototype, "scrollIntoView").mockImplementation(function (
    this: Element,
  ) {
    scrolled.push(this.textContent);
  });
  const op = "Default/log-op0";
  const headline = { kind: "hit", severity: "error", title: "", text: "", advice: "", op } as const;
  const more = { rank: 0, step: 0, io: "output", slot: 0, source: null, others: 0 } as const;
  show({ ...RUN, headline: { ...headline, ...more, command: "" } });
  go({ op: "Default/mean-op0" });
  render(<SourceStack sources={[INNER]} />);
  await waitFor(() => expect(shownCode()).toHaveLength(1));
  expect(scrolled).toEqual([]);
  void act(() => go({ op }));
  await waitFor(() => expect(scrolled).toEqual(["7y = torch.log(x)"]));
  scroll.mockRestore();
});
