// `astra runs list|show|watch|logs|export|ledger`: looking at runs, following one, taking its whole history away. Comparing two is
// run-diff.ts, changing them is steer-command.ts.

import { allItems } from "@astraflow/client";
import type { Ledger, Run } from "@astraflow/protocol";
import { type ExitCode, exitCodes } from "./failure.ts";
import { type RunsWords, runsOfWorker, runsQuery } from "./filtering.ts";
import { findNodeOfRun, findRun } from "./finding.ts";
import { type Place, printList, printOne, sayMore, tookOf, when } from "./place.ts";
import { watchToEnd } from "./run-command.ts";
import { factPages } from "./run-following.ts";
import { drawRun, isEnded } from "./run-picture.ts";
import { layTable, type Paint, tame } from "./terminal.ts";

export interface ListWords extends RunsWords {
  readonly limit: number;
}

const statusTones: Readonly<Record<string, keyof Paint>> = {
  running: "blue",
  succeeded: "green",
  failed: "red",
  cancelled: "dim",
  queued: "dim",
};

export async function listRuns(words: ListWords, place: Place): Promise<ExitCode> {
  const { query, worker } = await runsQuery(words, place);
  const page =
    worker === undefined
      ? await place.client.listRuns({ ...query, limit: words.limit })
      : await runsOfWorker(worker, query, words.limit, place);
  printList(
    {
      items: page.items,
      body: page,
      id: (run) => run.runId,
      columns: [
        { head: "RUN", of: (run) => run.runId, kind: "id" },
        { head: "STATUS", of: (run) => run.status, tone: ({ status }) => statusTones[status] ?? null },
        { head: "WORKFLOW", of: (run) => run.name ?? "", kind: "text" },
        { head: "CREATED", of: (run) => when(run.createdAt ?? run.startedAt), kind: "when" },
        { head: "TOOK", of: tookOf },
        { head: "VERSION", of: (run) => String(run.version ?? ""), isWide: true },
        { head: "BY", of: (run) => run.startedBy ?? "", isWide: true },
        { head: "CLIENT", of: (run) => run.clientId },
        { head: "OPEN", of: (run) => String(run.openTasks ?? ""), isWide: true },
        { head: "ERROR", of: (run) => run.error?.code ?? "", isWide: true },
      ],
      none:
        Object.keys(query).length > 0 || worker !== undefined
          ? "No run fits that filter. All of them: astra runs list"
          : "There is no run yet. Start one: astra run examples/workflows/welcome.json",
    },
    place,
  );
  sayMore(page, words.limit, place);
  return exitCodes.ok;
}

export interface ShowWords {
  /** A position of the log: the run as it was then. */
  readonly at?: number;
}

export async function showRun(id: string, { at }: ShowWords, place: Place): Promise<ExitCode> {
  const { client, terminal, json } = place;
  const runId = await findRun(id, client);
  const run = await client.getRun({ runId, at });
  if (json) terminal.print(JSON.stringify(run));
  else {
    const workflow = await client.getRunDefinition({ runId });
    const columns = terminal.isLive ? terminal.columns : Number.POSITIVE_INFINITY;
    const moment = at === undefined ? place.now() : latestOf(run);
    for (const line of drawRun(run, workflow, { paint: terminal.paint, columns, now: moment, url: client.url }))
      terminal.print(line);
    if (at !== undefined) terminal.say(`as it was at ${at}; now: astra runs show ${runId}`);
    if (run.error) terminal.print(`${run.error.code}: ${tame(run.error.message)}`);
    for (const { resourceId, workerName, type } of run.artifacts ?? [])
      terminal.print(`artifact ${tame(resourceId)} (${tame(type)}) at ${tame(workerName)}`);
  }
  return exitCodes.ok;
}

/** The last instant that a run as it was knows of: it had not become any older then. */
function latestOf({ createdAt, startedAt, finishedAt, nodes = [] }: Run): number {
  const instants = [createdAt, startedAt, finishedAt, ...nodes.flatMap((node) => [node.startedAt, node.finishedAt])];
  return Math.max(0, ...instants.flatMap((instant) => (instant === undefined ? [] : [Date.parse(instant)])));
}

/** What the facts say was given to workers and what came of it; of the whole log stretch by stretch, each told apart. */
export async function showLedger(id: string | undefined, place: Place): Promise<ExitCode> {
  const { client, terminal } = place;
  if (id !== undefined) {
    const ledger = await client.getRunLedger({ runId: await findRun(id, client) });
    printOne(ledger, figureLines(ledger), place);
    return judge(ledger.figures, place);
  }
  let code: ExitCode = exitCodes.ok;
  for (let after: number | undefined; ; ) {
    const ledger = await client.getLedger({ after });
    const isAll = after === undefined && ledger.next === null;
    if (place.json) terminal.print(JSON.stringify(isAll ? ledger : { cursor: String(ledger.to), ...ledger }));
    else for (const line of figureLines(ledger)) terminal.print(line);
    if (judge(ledger.figures, place) !== exitCodes.ok) code = exitCodes.failed;
    if (ledger.next === null) return code;
    after = ledger.next;
  }
}

function figureLines({ figures, from, to }: Pick<Ledger, "figures" | "from" | "to">): string[] {
  return layTable([
    ["facts", `${from}..${to}`],
    ...Object.entries(figures).map(([name, count]) => [figureWords[name] ?? name, String(count)]),
  ]);
}

const figureWords: Readonly<Record<string, string>> = { refusedLate: "refused, too late" };

/** Promised is that neither ever happens, so a script hears of it by the exit code too. */
function judge({ lost, twice }: Ledger["figures"], { terminal, json }: Place): ExitCode {
  if (lost === 0 && twice === 0) return exitCodes.ok;
  if (!json)
    terminal.complain(`${lost} tasks were lost and ${twice} were accepted twice; neither may happen. Please report it.\n`);
  return exitCodes.failed;
}

export async function watchRun(id: string, place: Place & { signal: AbortSignal }): Promise<ExitCode> {
  return watchToEnd(await findRun(id, place.client), { json: place.json, watch: true }, place);
}

/**
 * One line of definition, the facts in order, one line of final state. The run is read before its facts: once it has ended it does
 * not change any more, so the facts read afterwards are all there are.
 */
export async function exportRun(id: string, { client, terminal, now }: Place): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const run = await client.getRun({ runId });
  terminal.print(JSON.stringify({ kind: "definition", runId, definition: await client.getRunDefinition({ runId }) }));
  const begun = now();
  let count = 0;
  for await (const facts of factPages(client, runId, null)) {
    for (const fact of facts) terminal.print(JSON.stringify({ kind: "fact", cursor: String(fact.position), ...fact }));
    count += facts.length;
    // Where the facts themselves go to the screen they are progress enough.
    const ms = now() - begun;
    if (ms > 1_000 && !Number.isFinite(terminal.width))
      terminal.draw([`${count} facts so far, ${Math.round((count * 1_000) / ms)} a second`]);
  }
  terminal.settle();
  terminal.print(JSON.stringify({ kind: "run", isEnded: isEnded(run), run }));
  return exitCodes.ok;
}

export interface LogWords {
  readonly channel?: string;
  readonly search?: string;
  readonly follow?: boolean;
}

/** What nodes printed, line by line; followed, what they print from then on too. */
export async function showLogs(
  id: string,
  node: string | undefined,
  words: LogWords,
  { client, terminal, json, signal }: Place & { signal: AbortSignal },
): Promise<ExitCode> {
  const runId = await findRun(id, client);
  const only = node === undefined ? undefined : await findNodeOfRun(node, runId, client);
  const labels = await labelsOf(client, runId);
  const query = { runId, node: only, channel: words.channel, q: words.search, limit: 1_000 };
  let asOf = 0;
  const pages = allItems(async (cursor) => {
    const page = await client.getRunLogs({ ...query, cursor });
    asOf = page.asOf;
    return page;
  });
  const prefix = (nodeId: string): string => (only === undefined ? `${tame(labels.get(nodeId) ?? nodeId)}: ` : "");
  let told = 0;
  for await (const line of pages) {
    told += 1;
    terminal.print(
      json
        ? JSON.stringify({ cursor: String(asOf), ...line })
        : prefix(line.nodeId) + (line.mimeType === undefined ? tame(line.text) : `(${line.mimeType})`),
    );
  }
  if (words.follow !== true || isEnded(await client.getRun({ runId }))) {
    if (told === 0 && !json) terminal.say("Nothing was printed that fits.");
    return exitCodes.ok;
  }
  for await (const { id: cursor, type, data } of client.events({
    runId,
    after: String(asOf),
    topics: "run.status,node.result",
    signal,
  })) {
    if (data.kind === "run.status" && isEnded(data)) break;
    if (data.kind !== "node.result.delta" || data.operation !== "append") continue;
    const text = data.payload?.["text"];
    if (typeof text !== "string" || (only !== undefined && data.nodeId !== only && data.taskId !== only)) continue;
    if (json) terminal.print(JSON.stringify({ cursor, type, ...data }));
    else for (const line of text.replace(/\n$/, "").split("\n")) terminal.print(prefix(data.nodeId) + tame(line));
  }
  return exitCodes.ok;
}

async function labelsOf(client: Place["client"], runId: string): Promise<Map<string, string>> {
  const { nodes = [] } = await client.getRun({ runId });
  return new Map(nodes.map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
}
