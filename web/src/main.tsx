import { render } from "preact";
import { App } from "./App";
import { listenToKeys } from "./keyboard";
import { connect } from "./state/events";
import { followPauses, showNotices } from "./state/following";
import "./styles/tokens.css";
import "./styles/page.css";
import "./styles/controls.css";
import "./styles/graph.css";
import "./styles/tensor.css";
import "./styles/lists.css";

const host = document.getElementById("page");
if (host === null) throw new Error("index.html has no element for the page");
render(<App />, host);
connect();
followPauses();
showNotices();
listenToKeys();
