// Follows a run until it ends, also over restarts of the scheduler: reads its events and draws the run in a terminal, prints one line per
// change in a pipe, or prints the facts as JSON lines. An interrupt does not stop the run.

import { setTimeout as pause } from "node:timers/promises";
import { compilePlan, type Plan } from "@astraflow/graph";
import type { Run, RunEvent, ServerEvent, Workflow } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { CliFailure, exitCodes } from "../output/cli-failure.ts";
import type { Terminal } from "../output/terminal.ts";
import { applyRunEvent, type FollowedRun, mergeFreshRun, toRun } from "./followed-run.ts";
import { isRunEnded } from "./run-status.ts";
import { describeTaskPath, taskSlot } from "./run-tree.ts";
import { describeNodeChange, describeRunChanges, describeRunStatus, renderRun } from "./run-view.ts";

/** At most ten redraws a second. */
const redrawMs = 100;
const factPollMs = 200;
/** How often an unreachable scheduler is tried again. */
const reconnectMs = 500;
/** No event reports an acknowledgement: while one is pending, a run of at most this size is read again periodically. */
const rereadLimits = { ms: 1_000, nodesMax: 1_000 } as const;

/** So long nothing of a run has a worker before the way to the reason is named. */
const idleHintMs = 10_000;

export interface FollowOptions {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly view: "picture" | "facts" | "none";
  readonly signal: AbortSignal;
  now(): number;
  /** How often the run is read again while events are not enough; a second by default. */
  readonly rereadMs?: number;
}

export async function followRun(id: string, options: FollowOptions): Promise<Run> {
  if (options.view === "facts") return followFacts(id, options);
  const { client } = options;
  const readRun = () => retryUntilReachable(() => client.getRun({ runId: id }), options);
  const workflow = await retryUntilReachable(() => client.getRunDefinition({ runId: id }), options);
  const first = await readRun();
  const display = createRunDisplay(first, workflow, options);
  try {
    display.start();
    if (!isRunEnded(first)) await followEvents(id, display, options);
    // Everything but the printed output is taken from the scheduler.
    display.replaceRun(await readRun());
    return toRun(display.state());
  } finally {
    display.finish();
  }
}

/** Applies events until the run ends. A lost connection is opened again and continues after the last event. */
async function followEvents(id: string, display: RunDisplay, options: FollowOptions): Promise<void> {
  const { client, terminal, signal, rereadMs = rereadLimits.ms } = options;
  const end = new AbortController();
  const freshness = { isStale: false };
  let isLost = false;
  const hint = createIdleHint(id, display, options);
  const reading = rereadPeriodically(id, display, client, freshness, end, rereadMs, hint);
  try {
    const events = client.events({
      runId: id,
      after: String(display.state().asOf),
      signal: AbortSignal.any([signal, end.signal]),
      onState: (state) => {
        if (state === "lost" && !isLost) terminal.info(connectionLostMessage(client.url));
        else if (state === "open" && isLost) terminal.info(reconnectedMessage);
        isLost = state === "lost";
      },
      // Older events are gone, perhaps with the end of the run, so the run is read again.
      onGap: () => {
        freshness.isStale = true;
      },
    });
    for await (const event of events) {
      display.applyEvent(event);
      if (isRunEnded(display.state().run)) return;
    }
  } catch (cause) {
    if (!end.signal.aborted) throw cause;
  } finally {
    end.abort();
    await reading;
  }
}

const connectionLostMessage = (url: string): string => `the scheduler at ${url} does not answer; reconnecting, no event is lost`;
const reconnectedMessage = "Reconnected; no events were lost.";

/** Reads the run again where events are not enough: for acknowledgements, and after a gap. */
async function rereadPeriodically(
  id: string,
  display: RunDisplay,
  client: Client,
  freshness: { isStale: boolean },
  end: AbortController,
  ms: number,
  hint: () => void,
): Promise<void> {
  const { signal } = end;
  while (await pause(ms, true, { signal }).catch(() => false)) {
    hint();
    const { nodes } = display.state();
    const isPending = nodes.size <= rereadLimits.nodesMax && [...nodes.values()].some(({ pendingAck }) => pendingAck);
    if (!isPending && !freshness.isStale) continue;
    const run = await client.getRun({ runId: id }, { signal }).then(
      (found) => found,
      () => null, // unreachable: the stream reports it, and the next round tries again
    );
    if (run === null) continue;
    freshness.isStale = false;
    // The caller reads the run once more at the end.
    if (isRunEnded(run)) end.abort();
    else display.replaceRun(run);
  }
}

/** Names `astra why`, once, when no task of the run has had a worker for a while. */
function createIdleHint(id: string, display: RunDisplay, { terminal, view, now }: FollowOptions): () => void {
  let idleSince: number | null = null;
  let isNamed = false;
  return () => {
    if (isNamed || view !== "picture") return;
    const isIdle = ![...display.state().nodes.values()].some(({ status }) => status === "running");
    idleSince = isIdle ? (idleSince ?? now()) : null;
    if (idleSince === null || now() - idleSince < idleHintMs) return;
    isNamed = true;
    terminal.info(`No worker has had a task of this run for ${idleHintMs / 1_000} s. What it waits for: astra why ${id}`);
  };
}

type RunDisplay = ReturnType<typeof createRunDisplay>;

/** Holds the state of the run and shows it: redrawn in place, or one line per change. */
function createRunDisplay(first: Run, workflow: Workflow, { client, terminal, view, now }: FollowOptions) {
  const plan = compilePlan(workflow);
  const isRedrawn = view === "picture" && terminal.isInteractive;
  const isLineByLine = view === "picture" && !terminal.isInteractive;
  let state = mergeFreshRun(first);
  let isSilent = false;
  const draw = (): void => {
    const { colors: paint, stderrColumns: columns, stderrRows } = terminal;
    const options = { paint, columns, rows: stderrRows - 1, now: now(), url: client.url, plan };
    terminal.draw(renderRun(toRun(state), workflow, options));
  };
  // Redrawn by a timer, not by events: there may be a thousand a second, and durations grow without events.
  const timer = isRedrawn ? setInterval(draw, redrawMs) : undefined;
  const printLines = (lines: readonly string[]): void => {
    if (isLineByLine) for (const line of lines) terminal.info(line);
  };
  return {
    state: () => state,
    start() {
      if (isRedrawn) draw();
      // A run that has already ended is printed once, at the end.
      if (isRunEnded(state.run)) isSilent = true;
      else printLines(describeRunChanges(null, toRun(state), plan));
    },
    applyEvent(event: ServerEvent) {
      const before = state.run.status;
      const old = "taskId" in event.data ? state.nodes.get(event.data.taskId ?? "") : undefined;
      const earlier = event.type === "run.snapshot" && isLineByLine ? toRun(state) : null;
      const { after, task } = applyRunEvent(state, event);
      state = after;
      if (earlier !== null) printLines(describeRunChanges({ ...earlier, status: state.run.status }, toRun(state), plan));
      else if (task !== null) printLines(describeTaskChange(old, state, task, plan));
      else if (before !== state.run.status && !isRunEnded(state.run)) printLines([describeRunStatus(state.run)]);
    },
    replaceRun(run: Run) {
      const earlier = isLineByLine ? toRun(state) : null;
      state = mergeFreshRun(run, state);
      if (earlier !== null)
        printLines(describeRunChanges(isSilent ? null : withoutFinalStatus(earlier, run), toRun(state), plan));
    },
    finish() {
      clearInterval(timer);
      if (isRedrawn) draw();
      terminal.finishDrawing();
    },
  };
}

/** The end is printed once, with its error, which only the run itself has. */
const withoutFinalStatus = (earlier: Run, run: Run): Run => (isRunEnded(run) ? { ...earlier, status: "running" } : earlier);

type NodeBefore = Parameters<typeof describeNodeChange>[0];

function describeTaskChange(old: NodeBefore, { run, nodes }: FollowedRun, task: string, plan: Plan): string[] {
  const node = nodes.get(task);
  const line = node === undefined ? null : describeNodeChange(old, node, describeTaskPath(plan, taskSlot(task, run.runId)));
  return line === null ? [] : [line];
}

const runEndFacts: ReadonlySet<string> = new Set(["run.succeeded", "run.failed", "run.cancelled"]);

/** The facts themselves, as JSON lines with their cursor. */
async function followFacts(id: string, options: FollowOptions): Promise<Run> {
  const { client, terminal, signal } = options;
  let cursor: string | undefined;
  for (;;) {
    const after = cursor;
    const facts = await retryUntilReachable(() => readAllFacts(client, id, after), options);
    for (const fact of facts) {
      cursor = String(fact.position);
      terminal.print(JSON.stringify({ cursor, ...fact }));
    }
    // Nothing follows the end of a run, so the final state can be read.
    if (facts.some(({ type }) => runEndFacts.has(type))) return retryUntilReachable(() => client.getRun({ runId: id }), options);
    await pause(factPollMs, undefined, { signal });
  }
}

/** All facts after a cursor, page by page: a history may not fit into memory. */
export async function* listFactPages(client: Client, runId: string, after?: string): AsyncGenerator<readonly RunEvent[]> {
  for (let cursor = after; ; ) {
    const page = await client.listRunEvents({ runId, limit: 200, cursor });
    yield page.items;
    if (page.nextCursor === null || page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}

async function readAllFacts(client: Client, runId: string, after: string | undefined): Promise<RunEvent[]> {
  const facts: RunEvent[] = [];
  for await (const page of listFactPages(client, runId, after)) facts.push(...page);
  return facts;
}

/** Waits for a scheduler that is unreachable: the log continues after the cursor, so no fact is lost. */
async function retryUntilReachable<T>(request: () => Promise<T>, { client, terminal, signal }: FollowOptions): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      const answer = await request();
      if (!isFirst) terminal.info(reconnectedMessage);
      return answer;
    } catch (cause) {
      if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.unreachable) throw cause;
      if (isFirst) terminal.info(connectionLostMessage(client.url));
      await pause(reconnectMs, undefined, { signal });
    }
  }
}
