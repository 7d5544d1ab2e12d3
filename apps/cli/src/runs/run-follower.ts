// Follows a run until it ends, whatever happens to the scheduler in between: listens to its events, draws it in a terminal, writes one line
// per change in a pipe, or hands on the facts as JSON lines. Stopping to look never stops the run.

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

/** At most ten pictures a second. */
const redrawMs = 100;
/** Between looks at the facts, where those are wanted themselves. */
const factPollMs = 200;
/** Between tries while nobody answers. */
const reconnectMs = 500;
/** Acknowledgements are in no event: while one is awaited, a run of this size at most is read again now and then. */
const rereadLimits = { ms: 1_000, nodesMax: 1_000 } as const;

export interface FollowOptions {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly view: "picture" | "facts" | "none";
  readonly signal: AbortSignal;
  now(): number;
  /** Between readings of the run where events do not tell everything; a second unless given. */
  readonly rereadMs?: number;
}

export async function followRun(id: string, options: FollowOptions): Promise<Run> {
  if (options.view === "facts") return followFacts(id, options);
  const retry = <T>(request: () => Promise<T>) => retryUntilReachable(request, options);
  const workflow = await retry(() => options.client.getRunDefinition({ runId: id }));
  const first = await retry(() => options.client.getRun({ runId: id }));
  const display = createRunDisplay(mergeFreshRun(first), workflow, options);
  try {
    display.start();
    if (!isRunEnded(first)) await followEvents(id, display, options);
    // What was printed belongs to the picture, everything else is as the scheduler has it now.
    const last = await retry(() => options.client.getRun({ runId: id }));
    display.replaceRun(last);
    return toRun(display.state());
  } finally {
    display.finish();
  }
}

/** Events until the run is over. A connection that is lost is dialled again and goes on where it was. */
async function followEvents(
  id: string,
  display: RunDisplay,
  { client, terminal, signal, rereadMs: readAgainMs = rereadLimits.ms }: FollowOptions,
): Promise<void> {
  const endController = new AbortController();
  const freshness = { isStale: false };
  let isLost = false;
  const reading = rereadPeriodically(id, display, client, { readings: freshness, over: endController, ms: readAgainMs });
  try {
    const events = client.events({
      runId: id,
      after: String(display.state().asOf),
      signal: AbortSignal.any([signal, endController.signal]),
      onState: (state) => {
        if (state === "lost" && !isLost) terminal.info(connectionLostMessage(client.url));
        else if (state === "open" && isLost) terminal.info(reconnectedMessage);
        isLost = state === "lost";
      },
      // Older events are gone, the end of the run perhaps among them; the run itself says how it stands.
      onGap: () => {
        freshness.isStale = true;
      },
    });
    for await (const event of events) {
      display.applyEvent(event);
      if (isRunEnded(display.state().run)) return;
    }
  } catch (cause) {
    if (!endController.signal.aborted) throw cause;
  } finally {
    endController.abort();
    await reading;
  }
}

const connectionLostMessage = (url: string): string => `the scheduler at ${url} does not answer; reconnecting, no event is lost`;
const reconnectedMessage = "Reconnected; no events were lost.";

/** Reads the run again where events do not tell everything: acknowledgements, and what a gap took away. */
async function rereadPeriodically(
  id: string,
  display: RunDisplay,
  client: Client,
  { readings: freshness, over: endController, ms }: { readings: { isStale: boolean }; over: AbortController; ms: number },
): Promise<void> {
  const { signal } = endController;
  while (await waitUnlessAborted(ms, signal)) {
    const { nodes } = display.state();
    const isPending = nodes.size <= rereadLimits.nodesMax && [...nodes.values()].some(({ pendingAck }) => pendingAck);
    if (!isPending && !freshness.isStale) continue;
    const run = await client.getRun({ runId: id }, { signal }).then(
      (found) => found,
      () => null, // nobody there: the stream notices too, says so, and this is tried again
    );
    if (run === null) continue;
    freshness.isStale = false;
    // The last reading, which follows, tells the end.
    if (isRunEnded(run)) endController.abort();
    else display.replaceRun(run);
  }
}

const waitUnlessAborted = (ms: number, signal: AbortSignal): Promise<boolean> => pause(ms, true, { signal }).catch(() => false);

interface RunDisplay {
  state(): FollowedRun;
  start(): void;
  applyEvent(event: ServerEvent): void;
  replaceRun(run: Run): void;
  finish(): void;
}

/** What is known of the run, and the showing of it: a picture that is redrawn, or a line for every change. */
function createRunDisplay(first: FollowedRun, workflow: Workflow, { client, terminal, view, now }: FollowOptions): RunDisplay {
  const plan = compilePlan(workflow);
  const isRedrawn = view === "picture" && terminal.isInteractive;
  const isLineByLine = view === "picture" && !terminal.isInteractive;
  let state = first;
  let isSilent = false;
  const draw = (): void => {
    const { colors, stderrColumns: columns, stderrRows: rows } = terminal;
    terminal.draw(
      renderRun(toRun(state), workflow, { paint: colors, columns, rows: rows - 1, now: now(), url: client.url, plan }),
    );
  };
  // Redrawn on the clock, not on events: a thousand a second must not cost a thousand pictures, and the seconds go on without events.
  const timer = isRedrawn ? setInterval(draw, redrawMs) : undefined;
  const printLines = (lines: readonly string[]): void => {
    if (isLineByLine) for (const line of lines) terminal.info(line);
  };
  return {
    state: () => state,
    start() {
      if (isRedrawn) draw();
      // Of a run that is over already everything is said at once, at its end.
      if (isRunEnded(state.run)) isSilent = true;
      else printLines(describeRunChanges(null, toRun(state), plan));
    },
    applyEvent(event) {
      const before = state.run.status;
      const old = "taskId" in event.data ? state.nodes.get(event.data.taskId ?? "") : undefined;
      const earlier = event.type === "run.snapshot" && isLineByLine ? toRun(state) : null;
      const { after, task } = applyRunEvent(state, event);
      state = after;
      if (earlier !== null) return printLines(describeRunChanges({ ...earlier, status: state.run.status }, toRun(state), plan));
      if (task !== null) printLines(describeTaskChange(old, state, task, plan));
      else if (before !== state.run.status && !isRunEnded(state.run)) printLines([describeRunStatus(state.run)]);
    },
    replaceRun(run) {
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

/** The end is said once, with its error, which only the run itself has. */
const withoutFinalStatus = (earlier: Run, run: Run): Run => (isRunEnded(run) ? { ...earlier, status: "running" } : earlier);

function describeTaskChange(
  old: Parameters<typeof describeNodeChange>[0],
  { run, nodes }: FollowedRun,
  task: string,
  plan: Plan,
): string[] {
  const node = nodes.get(task);
  const line = node === undefined ? null : describeNodeChange(old, node, describeTaskPath(plan, taskSlot(task, run.runId)));
  return line === null ? [] : [line];
}

const runEndFacts: ReadonlySet<string> = new Set(["run.succeeded", "run.failed", "run.cancelled"]);

/** The facts themselves, as JSON lines with their cursor. */
async function followFacts(id: string, options: FollowOptions): Promise<Run> {
  const { client, terminal, signal } = options;
  let cursor: string | null = null;
  for (;;) {
    const after: string | null = cursor;
    const facts: RunEvent[] = await retryUntilReachable(() => readAllFacts(client, id, after), options);
    for (const fact of facts) terminal.print(JSON.stringify({ cursor: String(fact.position), ...fact }));
    const last = facts.at(-1);
    if (last !== undefined) cursor = String(last.position);
    // Nothing is told after the end of a run but what was on its way: one more look finds it.
    if (facts.some(({ type }) => runEndFacts.has(type))) return retryUntilReachable(() => client.getRun({ runId: id }), options);
    await pause(factPollMs, undefined, { signal });
  }
}

/** All facts after a cursor, page by page: a history may be longer than memory is large. */
export async function* listFactPages(client: Client, runId: string, after: string | null): AsyncGenerator<readonly RunEvent[]> {
  for (let cursor = after ?? undefined; ; ) {
    const page = await client.listRunEvents({ runId, limit: 200, cursor });
    yield page.items;
    if (page.nextCursor === null || page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}

async function readAllFacts(client: Client, runId: string, after: string | null): Promise<RunEvent[]> {
  const facts: RunEvent[] = [];
  for await (const page of listFactPages(client, runId, after)) facts.push(...page);
  return facts;
}

/** A scheduler that is away (restarting, unreachable) is waited for: the log continues after the cursor, so nothing is missed. */
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
