/** The script of every report page: draws the data in the page's `data` element. */
import { render, type FunctionComponent, type JSX } from "preact";
import { useState } from "preact/hooks";
import "../src/styles/tokens.css";
import "./report.css";
import { Comparison } from "./comparison/Comparison";
import { Losses } from "./Losses";
import { Profile } from "./profile/Profile";
import { Study } from "./study/Study";

const PAGES: Readonly<Record<string, unknown>> = {
  comparison: Comparison,
  losses: Losses,
  profile: Profile,
  study: Study,
};

function firstTheme(): string {
  const asked = new URLSearchParams(location.search).get("theme");
  return asked ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function Report({
  page: Page,
  data,
}: {
  readonly page: FunctionComponent<{ readonly data: unknown }>;
  readonly data: unknown;
}): JSX.Element {
  const [theme, setTheme] = useState(firstTheme);
  document.documentElement.dataset.theme = theme;
  return (
    <main>
      <button
        type="button"
        id="theme"
        aria-label="switch between light and dark"
        onClick={() => setTheme(theme === "dark" ? "light" : "dark")}
      >
        ◐
      </button>
      {/* The key: charts take their colours from the theme when they are made. */}
      <Page key={theme} data={data} />
    </main>
  );
}

const holder = document.getElementById("data");
const root = document.getElementById("report");
if (holder !== null && root !== null) {
  const page = PAGES[holder.dataset.page ?? ""] as FunctionComponent<{ readonly data: unknown }>;
  render(<Report page={page} data={JSON.parse(holder.textContent) as unknown} />, root);
}
