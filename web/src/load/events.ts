import type { Event as Change } from "../wire";
import { api, ApiError, BASE } from "./api";
import { markChanged, removeRun, replaceRun, runs, setConnection, setRuns } from "../state/store";
import { messageOf, toast } from "../state/toasts";

/**
 * Keeps the state current: the server announces changes over a WebSocket, and this module fetches
 * them, at most a few times per second however fast a training runs.
 */
const GATHER_MILLISECONDS = 120;
const FIRST_RETRY_MILLISECONDS = 400;
const LAST_RETRY_MILLISECONDS = 5000;
const STATUS_TOPICS: ReadonlySet<string> = new Set([
  "status",
  "watchpoints",
  "notices",
  "hits",
  "graph",
]);

const waiting = new Map<string, Set<Change["topics"][number]>>();
let gathering = false;
let retry = FIRST_RETRY_MILLISECONDS;

export function connect(): void {
  void loadRuns();
  listen();
}

async function loadRuns(): Promise<void> {
  try {
    const before = new Set(runs.value.map((each) => each.id));
    const found = await api.runs();
    const list = found.runs;
    setRuns(list, { port: found.rank_port, fingerprint: found.fingerprint });
    const topics = ["status", "graph", "hits", "watchpoints", "loss", "notices"] as const;
    markChanged(
      list.filter((each) => before.has(each.id)).map((each) => ({ run: each.id, topics })),
    );
  } catch (error) {
    if (error instanceof ApiError && error.status !== 0) toast(error.message, "error", error.slug);
  }
}

function listen(): void {
  const target = new URL(`${BASE}/events`, location.href);
  target.protocol = target.protocol === "https:" ? "wss:" : "ws:";
  target.search = "";
  const socket = new WebSocket(target);
  let wasOpen = false;
  socket.addEventListener("open", () => {
    wasOpen = true;
    retry = FIRST_RETRY_MILLISECONDS;
    setConnection("open");
    void loadRuns();
  });
  socket.addEventListener("message", (message: MessageEvent<string>) =>
    note(JSON.parse(message.data) as Change),
  );
  socket.addEventListener("close", () => {
    setConnection("lost");
    // A browser does not say why a socket was refused; the answer to a request does.
    if (!wasOpen) void loadRuns();
    setTimeout(listen, retry);
    retry = Math.min(retry * 1.6, LAST_RETRY_MILLISECONDS);
  });
}

function note(change: Change): void {
  const topics = waiting.get(change.run) ?? new Set();
  for (const topic of change.topics) topics.add(topic);
  waiting.set(change.run, topics);
  if (gathering) return;
  gathering = true;
  setTimeout(() => void fetchChanges(), GATHER_MILLISECONDS);
}

async function fetchChanges(): Promise<void> {
  const changes = [...waiting].map(([run, topics]) => ({ run, topics: [...topics] }));
  waiting.clear();
  const isKnown = new Set(runs.value.map((each) => each.id));
  try {
    if (changes.some((change) => !isKnown.has(change.run))) setRuns((await api.runs()).runs);
    else await Promise.all(changes.map(refresh));
    markChanged(changes);
  } catch (error) {
    // A banner shows when the server does not answer at all.
    if (!(error instanceof ApiError) || error.status !== 0) toast(messageOf(error), "error");
  }
  gathering = false;
  if (waiting.size > 0) {
    gathering = true;
    setTimeout(() => void fetchChanges(), GATHER_MILLISECONDS);
  }
}

async function refresh(change: {
  readonly run: string;
  readonly topics: readonly string[];
}): Promise<void> {
  if (!change.topics.some((topic) => STATUS_TOPICS.has(topic))) return;
  try {
    replaceRun(await api.run(change.run));
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) {
      removeRun(change.run);
    } else throw error;
  }
}
