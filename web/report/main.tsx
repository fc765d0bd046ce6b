/** The script of every report page: draws the data in the page's `data` element. */
import { render, type FunctionComponent, type JSX } from "preact";
import { useState } from "preact/hooks";
import "../src/styles/tokens.css";
import "./report.css";
import { Comparison } from "./comparison/Comparison";
import { Diagnosis } from "./Diagnosis";
import { Losses } from "./Losses";
import { Profile } from "./profile/Profile";
import { Study } from "./study/Study";

const PAGES: Readonly<Record<string, unknown>> = {
  comparison: Comparison,
  diagnosis: Diagnosis,
  losses: Losses,
  profile: Profile,
  study: Study,
};

const NAMES: Readonly<Record<string, string>> = {
  comparison: "Comparison",
  diagnosis: "Diagnosis",
  losses: "Losses",
  profile: "Profile",
  study: "Study",
};

/** The commands that make the other pages, and what these show. */
const COMMANDS: Readonly<Record<string, readonly [string, string]>> = {
  debugger: ["sonde debug train.py", "step through a training"],
  dump: ["sonde view DUMP", "look at a dump"],
  comparison: ["sonde compare A B --html", "two dumps"],
  losses: ["sonde loss A B --html", "two loss curves"],
  diagnosis: ["sonde diagnose --html train.py", "why a training learns badly"],
  profile: ["sonde profile train.py", "where the time goes"],
  study: ["sonde tune config.yaml", "search hyper-parameters"],
};

/** The other reports of the directory, which the writing command put into the page. */
interface ReportLink {
  readonly kind: string;
  readonly title: string;
  readonly address: string;
}

function readLinks(): readonly ReportLink[] {
  const text = document.getElementById("links")?.textContent ?? "";
  return text === "" ? [] : (JSON.parse(text) as readonly ReportLink[]);
}

function OtherReports(): JSX.Element | null {
  const links = readLinks();
  if (links.length === 0) return null;
  return (
    <nav class="reports" aria-label="Other reports">
      {links.map(({ kind, title, address }) => (
        <a key={address} href={address} title={title}>
          {NAMES[kind] ?? kind}: {decodeURIComponent(address)}
        </a>
      ))}
    </nav>
  );
}

function firstTheme(): string {
  const asked = new URLSearchParams(location.search).get("theme");
  return asked ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

function Report({
  kind,
  page: Page,
  data,
}: {
  readonly kind: string;
  readonly page: FunctionComponent<{ readonly data: unknown }>;
  readonly data: unknown;
}): JSX.Element {
  const [theme, setTheme] = useState(firstTheme);
  document.documentElement.dataset.theme = theme;
  return (
    <>
      <header class="topbar">
        <span class="brand">Sonde</span>
        <span class="quiet">{NAMES[kind]}</span>
        <OtherReports />
        <span class="spacer" />
        <button
          type="button"
          id="theme"
          aria-label="switch between light and dark"
          title="Switch between light and dark"
          onClick={() => setTheme(theme === "dark" ? "light" : "dark")}
        >
          {theme}
        </button>
      </header>
      <main>
        {/* The key: charts take their colours from the theme when they are made. */}
        <Page key={theme} data={data} />
      </main>
      <footer class="others">
        <span class="quiet">Other pages:</span>
        {Object.entries(COMMANDS)
          .filter(([name]) => name !== kind)
          .map(([name, [command, what]]) => (
            <span key={name}>
              <code>{command}</code> <span class="quiet">{what}</span>
            </span>
          ))}
      </footer>
    </>
  );
}

const holder = document.getElementById("data");
const root = document.getElementById("report");
if (holder !== null && root !== null) {
  const kind = holder.dataset.page ?? "";
  const page = PAGES[kind] as FunctionComponent<{ readonly data: unknown }>;
  render(<Report kind={kind} page={page} data={JSON.parse(holder.textContent) as unknown} />, root);
}
