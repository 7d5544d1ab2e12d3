// Follows a run until it ends, whatever happens to the scheduler in between: listens to its events, draws it in a terminal, writes one line
// per change in a pipe, or hands on the facts as JSON lines. Stopping to look never stops the run.

import { setTimeout as pause } from "node:timers/promises";
import { compilePlan, type Plan } from "@astraflow/graph";
import type { Run, RunEvent, ServerEvent, Workflow } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, exitCodes } from "./failure.ts";
import { describeChanges, describeEnd, describeNode, drawRun, isEnded } from "./run-picture.ts";
import { foldEvent, runOf, type Watched, watchRun } from "./run-state.ts";
import { pathOf, slotOf } from "./run-tree.ts";
import type { Terminal } from "./terminal.ts";

/** At most ten pictures a second. */
const drawMs = 100;
/** Between looks at the facts, where those are wanted themselves. */
const lookMs = 200;
/** Between tries while nobody answers. */
const reconnectMs = 500;
/** Acknowledgements are in no event: while one is awaited, a run of this size at most is read again now and then. */
const readAgain = { ms: 1_000, nodesMax: 1_000 } as const;

export interface Following {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly view: "picture" | "facts" | "none";
  readonly signal: AbortSignal;
  now(): number;
  /** Between readings of the run where events do not tell everything; a second unless given. */
  readonly readAgainMs?: number;
}

export async function followRun(id: string, following: Following): Promise<Run> {
  if (following.view === "facts") return followFacts(id, following);
  const keep = <T>(ask: () => Promise<T>) => askUntilAnswered(ask, following);
  const workflow = await keep(() => following.client.getRunDefinition({ runId: id }));
  const first = await keep(() => following.client.getRun({ runId: id }));
  const scene = openScene(watchRun(first), workflow, following);
  try {
    scene.begin();
    if (!isEnded(first)) await listen(id, scene, following);
    // What was printed belongs to the picture, everything else is as the scheduler has it now.
    const last = await keep(() => following.client.getRun({ runId: id }));
    scene.replace(last);
    return runOf(scene.state());
  } finally {
    scene.end();
  }
}

/** Events until the run is over. A connection that is lost is dialled again and goes on where it was. */
async function listen(
  id: string,
  scene: Scene,
  { client, terminal, signal, readAgainMs = readAgain.ms }: Following,
): Promise<void> {
  const over = new AbortController();
  const readings = { isStale: false };
  let isLost = false;
  const reading = readNowAndThen(id, scene, client, { readings, over, ms: readAgainMs });
  try {
    const events = client.events({
      runId: id,
      after: String(scene.state().asOf),
      signal: AbortSignal.any([signal, over.signal]),
      onState: (state) => {
        if (state === "lost" && !isLost) terminal.say(lostWords(client.url));
        else if (state === "open" && isLost) terminal.say(backWords);
        isLost = state === "lost";
      },
      // Older events are gone, the end of the run perhaps among them; the run itself says how it stands.
      onGap: () => {
        readings.isStale = true;
      },
    });
    for await (const event of events) {
      scene.tell(event);
      if (isEnded(scene.state().run)) return;
    }
  } catch (cause) {
    if (!over.signal.aborted) throw cause;
  } finally {
    over.abort();
    await reading;
  }
}

const lostWords = (url: string): string => `the scheduler at ${url} does not answer; reconnecting, nothing is missed`;
const backWords = "connected again, nothing missed";

/** Reads the run again where events do not tell everything: acknowledgements, and what a gap took away. */
async function readNowAndThen(
  id: string,
  scene: Scene,
  client: Client,
  { readings, over, ms }: { readings: { isStale: boolean }; over: AbortController; ms: number },
): Promise<void> {
  const { signal } = over;
  while (await isStill(ms, signal)) {
    const { nodes } = scene.state();
    const isPending = nodes.size <= readAgain.nodesMax && [...nodes.values()].some(({ pendingAck }) => pendingAck);
    if (!isPending && !readings.isStale) continue;
    const run = await client.getRun({ runId: id }, { signal }).then(
      (found) => found,
      () => null, // nobody there: the stream notices too, says so, and this is tried again
    );
    if (run === null) continue;
    readings.isStale = false;
    // The last reading, which follows, tells the end.
    if (isEnded(run)) over.abort();
    else scene.replace(run);
  }
}

const isStill = (ms: number, signal: AbortSignal): Promise<boolean> => pause(ms, true, { signal }).catch(() => false);

interface Scene {
  state(): Watched;
  begin(): void;
  tell(event: ServerEvent): void;
  replace(run: Run): void;
  end(): void;
}

/** What is known of the run, and the showing of it: a picture that is redrawn, or a line for every change. */
function openScene(first: Watched, workflow: Workflow, { client, terminal, view, now }: Following): Scene {
  const plan = compilePlan(workflow);
  const isDrawn = view === "picture" && terminal.isLive;
  const isTold = view === "picture" && !terminal.isLive;
  let state = first;
  let isSilent = false;
  const draw = (): void => {
    const { paint, columns, rows } = terminal;
    terminal.draw(drawRun(runOf(state), workflow, { paint, columns, rows: rows - 1, now: now(), url: client.url, plan }));
  };
  // Redrawn on the clock, not on events: a thousand a second must not cost a thousand pictures, and the seconds go on without events.
  const timer = isDrawn ? setInterval(draw, drawMs) : undefined;
  const say = (lines: readonly string[]): void => {
    if (isTold) for (const line of lines) terminal.say(line);
  };
  return {
    state: () => state,
    begin() {
      if (isDrawn) draw();
      // Of a run that is over already everything is said at once, at its end.
      if (isEnded(state.run)) isSilent = true;
      else say(describeChanges(null, runOf(state), plan));
    },
    tell(event) {
      const before = state.run.status;
      const old = "taskId" in event.data ? state.nodes.get(event.data.taskId ?? "") : undefined;
      const earlier = event.type === "run.snapshot" && isTold ? runOf(state) : null;
      const { after, task } = foldEvent(state, event);
      state = after;
      if (earlier !== null) return say(describeChanges({ ...earlier, status: state.run.status }, runOf(state), plan));
      if (task !== null) say(lineOf(old, state, task, plan));
      else if (before !== state.run.status && !isEnded(state.run)) say([describeEnd(state.run)]);
    },
    replace(run) {
      const earlier = isTold ? runOf(state) : null;
      state = watchRun(run, state);
      if (earlier !== null) say(describeChanges(isSilent ? null : withoutEnd(earlier, run), runOf(state), plan));
    },
    end() {
      clearInterval(timer);
      if (isDrawn) draw();
      terminal.settle();
    },
  };
}

/** The end is said once, with its error, which only the run itself has. */
const withoutEnd = (earlier: Run, run: Run): Run => (isEnded(run) ? { ...earlier, status: "running" } : earlier);

function lineOf(old: Parameters<typeof describeNode>[0], { run, nodes }: Watched, task: string, plan: Plan): string[] {
  const node = nodes.get(task);
  const line = node === undefined ? null : describeNode(old, node, pathOf(plan, slotOf(task, run.runId)));
  return line === null ? [] : [line];
}

const ends: ReadonlySet<string> = new Set(["run.succeeded", "run.failed", "run.cancelled"]);

/** The facts themselves, as JSON lines with their cursor. */
async function followFacts(id: string, following: Following): Promise<Run> {
  const { client, terminal, signal } = following;
  let cursor: string | null = null;
  for (;;) {
    const after: string | null = cursor;
    const facts: RunEvent[] = await askUntilAnswered(() => readFacts(client, id, after), following);
    for (const fact of facts) terminal.print(JSON.stringify({ cursor: String(fact.position), ...fact }));
    const last = facts.at(-1);
    if (last !== undefined) cursor = String(last.position);
    // Nothing is told after the end of a run but what was on its way: one more look finds it.
    if (facts.some(({ type }) => ends.has(type))) return askUntilAnswered(() => client.getRun({ runId: id }), following);
    await pause(lookMs, undefined, { signal });
  }
}

/** All facts after a cursor, page by page: a history may be longer than memory is large. */
export async function* factPages(client: Client, runId: string, after: string | null): AsyncGenerator<readonly RunEvent[]> {
  for (let cursor = after ?? undefined; ; ) {
    const page = await client.listRunEvents({ runId, limit: 200, cursor });
    yield page.items;
    if (page.nextCursor === null || page.nextCursor === cursor) return;
    cursor = page.nextCursor;
  }
}

async function readFacts(client: Client, runId: string, after: string | null): Promise<RunEvent[]> {
  const facts: RunEvent[] = [];
  for await (const page of factPages(client, runId, after)) facts.push(...page);
  return facts;
}

/** A scheduler that is away (restarting, unreachable) is waited for: the log continues after the cursor, so nothing is missed. */
async function askUntilAnswered<T>(ask: () => Promise<T>, { client, terminal, signal }: Following): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      const answer = await ask();
      if (!isFirst) terminal.say(backWords);
      return answer;
    } catch (cause) {
      if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.unreachable) throw cause;
      if (isFirst) terminal.say(lostWords(client.url));
      await pause(reconnectMs, undefined, { signal });
    }
  }
}
