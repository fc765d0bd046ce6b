import { render } from "preact";
import { App } from "./App";
import { listenToKeys } from "./keyboard";
import { connect } from "./load/events";
import {
  announceRuns,
  followPauses,
  openAtHeadline,
  updatePageTitle,
  showNotices,
  notifyAboutOtherRanks,
} from "./state/reactions";
import { pinOnTouch } from "./state/store";
import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/controls.css";
import "./styles/graph.css";
import "./styles/tensor.css";
import "./styles/lists.css";
import "./styles/compare.css";
import "./styles/headline.css";
import "./styles/findings.css";
import "./styles/ranks.css";
import "./styles/health.css";

const host = document.getElementById("page");
if (host === null) throw new Error("index.html has no element for the page");
render(<App />, host);
connect();
pinOnTouch();
followPauses();
openAtHeadline();
announceRuns();
notifyAboutOtherRanks();
showNotices();
updatePageTitle();
listenToKeys();
