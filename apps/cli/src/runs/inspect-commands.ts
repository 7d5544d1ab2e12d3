// `astra runs list|show|watch|logs|export|ledger`: reading runs. Comparing two is in diff-command.ts, changing them in change-commands.ts.

import { allItems } from "@astraflow/client";
import type { Ledger, Run } from "@astraflow/protocol";
import { type CommandContext, printItem, printList, printMoreHint } from "../api/command-context.ts";
import { buildRunListQuery, listRunsOfWorker, type RunFilterFlags } from "../lookup/list-filters.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type CliExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatInstant, formatRunDuration } from "../output/format.ts";
import { formatTable } from "../output/table.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";
import { listFactPages } from "./run-follower.ts";
import { isRunEnded } from "./run-status.ts";
import { renderRun } from "./run-view.ts";
import { followToEnd } from "./start-command.ts";

export interface RunListFlags extends RunFilterFlags {
  readonly limit: number;
}

const statusColors: Readonly<Record<string, keyof Colors>> = {
  running: "blue",
  succeeded: "green",
  failed: "red",
  cancelled: "dim",
  queued: "dim",
};

export async function listRuns(flags: RunListFlags, context: CommandContext): Promise<CliExitCode> {
  const { query, worker } = await buildRunListQuery(flags, context);
  const page =
    worker === undefined
      ? await context.client.listRuns({ ...query, limit: flags.limit })
      : await listRunsOfWorker(worker, query, flags.limit, context);
  printList(
    {
      items: page.items,
      jsonBody: page,
      id: (run) => run.runId,
      columns: [
        { header: "RUN", value: (run) => run.runId, kind: "id" },
        { header: "STATUS", value: (run) => run.status, color: ({ status }) => statusColors[status] ?? null },
        { header: "WORKFLOW", value: (run) => run.name ?? "", kind: "text" },
        { header: "CREATED", value: (run) => formatInstant(run.createdAt ?? run.startedAt), kind: "when" },
        { header: "TOOK", value: formatRunDuration },
        { header: "VERSION", value: (run) => String(run.version ?? ""), isWide: true },
        { header: "BY", value: (run) => run.startedBy ?? "", isWide: true },
        { header: "CLIENT", value: (run) => run.clientId },
        { header: "OPEN", value: (run) => String(run.openTasks ?? ""), isWide: true },
        { header: "ERROR", value: (run) => run.error?.code ?? "", isWide: true },
      ],
      emptyMessage:
        Object.keys(query).length > 0 || worker !== undefined
          ? "No run matches the filter. Show all with: astra runs list"
          : "No runs yet. Start one with: astra run examples/workflows/welcome.json",
    },
    context,
  );
  printMoreHint(page, flags.limit, context);
  return exitCodes.ok;
}

export interface ShowRunFlags {
  /** A log position: shows the run as it was then. */
  readonly at?: number;
}

export async function showRun(id: string, { at }: ShowRunFlags, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal, json } = context;
  const runId = await findRunId(id, client);
  const run = await client.getRun({ runId, at });
  if (json) terminal.print(JSON.stringify(run));
  else {
    const workflow = await client.getRunDefinition({ runId });
    const columns = terminal.isInteractive ? terminal.stderrColumns : Number.POSITIVE_INFINITY;
    const now = at === undefined ? context.now() : lastInstant(run);
    for (const line of renderRun(run, workflow, { paint: terminal.colors, columns, now: now, url: client.url }))
      terminal.print(line);
    if (at !== undefined) terminal.info(`State at log position ${at}; current state: astra runs show ${runId}`);
    if (run.error) terminal.print(`${run.error.code}: ${stripControlCharacters(run.error.message)}`);
    for (const { resourceId, workerName, type } of run.artifacts ?? [])
      terminal.print(
        `artifact ${stripControlCharacters(resourceId)} (${stripControlCharacters(type)}) at ${stripControlCharacters(workerName)}`,
      );
  }
  return exitCodes.ok;
}

/** The last instant in a past state of a run, which stands for "now" in it. */
function lastInstant({ createdAt, startedAt, finishedAt, nodes = [] }: Run): number {
  const instants = [createdAt, startedAt, finishedAt, ...nodes.flatMap((node) => [node.startedAt, node.finishedAt])];
  return Math.max(0, ...instants.flatMap((instant) => (instant === undefined ? [] : [Date.parse(instant)])));
}

/** Counts of dispatched tasks and their outcomes, of one run or of the whole log page by page. */
export async function showLedger(id: string | undefined, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  if (id !== undefined) {
    const ledger = await client.getRunLedger({ runId: await findRunId(id, client) });
    printItem(ledger, formatLedger(ledger), context);
    return checkLedger(ledger.figures, context);
  }
  let code: CliExitCode = exitCodes.ok;
  for (let after: number | undefined; ; ) {
    const ledger = await client.getLedger({ after });
    const isAll = after === undefined && ledger.next === null;
    if (context.json) terminal.print(JSON.stringify(isAll ? ledger : { cursor: String(ledger.to), ...ledger }));
    else for (const line of formatLedger(ledger)) terminal.print(line);
    if (checkLedger(ledger.figures, context) !== exitCodes.ok) code = exitCodes.failed;
    if (ledger.next === null) return code;
    after = ledger.next;
  }
}

function formatLedger({ figures, from, to }: Pick<Ledger, "figures" | "from" | "to">): string[] {
  return formatTable([
    ["facts", `${from}..${to}`],
    ...Object.entries(figures).map(([name, count]) => [ledgerLabels[name] ?? name, String(count)]),
  ]);
}

const ledgerLabels: Readonly<Record<string, string>> = { refusedLate: "refused, too late" };

/** Neither may ever happen, so the exit code reports it too. */
function checkLedger({ lost, twice }: Ledger["figures"], { terminal, json }: CommandContext): CliExitCode {
  if (lost === 0 && twice === 0) return exitCodes.ok;
  if (!json) terminal.error(`${lost} tasks were lost and ${twice} were accepted twice. This is a bug; please report it.\n`);
  return exitCodes.failed;
}

export async function watchRunToEnd(id: string, context: CommandContext & { signal: AbortSignal }): Promise<CliExitCode> {
  return followToEnd(await findRunId(id, context.client), true, context);
}

/**
 * Prints a line with the definition, the facts in order, and a line with the final state. The run is read before its facts: if it has ended,
 * the facts that are read afterwards are complete.
 */
export async function exportRun(id: string, { client, terminal, now }: CommandContext): Promise<CliExitCode> {
  const runId = await findRunId(id, client);
  const run = await client.getRun({ runId });
  terminal.print(JSON.stringify({ kind: "definition", runId, definition: await client.getRunDefinition({ runId }) }));
  const startedAt = now();
  let count = 0;
  for await (const facts of listFactPages(client, runId, null)) {
    for (const fact of facts) terminal.print(JSON.stringify({ kind: "fact", cursor: String(fact.position), ...fact }));
    count += facts.length;
    // On a screen the facts themselves show the progress.
    const ms = now() - startedAt;
    if (ms > 1_000 && !Number.isFinite(terminal.stdoutColumns))
      terminal.draw([`${count} facts so far, ${Math.round((count * 1_000) / ms)} a second`]);
  }
  terminal.finishDrawing();
  terminal.print(JSON.stringify({ kind: "run", isEnded: isRunEnded(run), run }));
  return exitCodes.ok;
}

export interface LogFlags {
  readonly channel?: string;
  readonly search?: string;
  readonly follow?: boolean;
}

/** Prints the output of nodes, line by line; with --follow also new output. */
export async function showLogs(
  id: string,
  node: string | undefined,
  flags: LogFlags,
  { client, terminal, json, signal }: CommandContext & { signal: AbortSignal },
): Promise<CliExitCode> {
  const runId = await findRunId(id, client);
  const only = node === undefined ? undefined : await findNodeOrTaskId(node, runId, client);
  const labels = await loadNodeLabels(client, runId);
  const query = { runId, node: only, channel: flags.channel, q: flags.search, limit: 1_000 };
  let asOf = 0;
  const pages = allItems(async (cursor) => {
    const page = await client.getRunLogs({ ...query, cursor });
    asOf = page.asOf;
    return page;
  });
  const prefix = (nodeId: string): string =>
    only === undefined ? `${stripControlCharacters(labels.get(nodeId) ?? nodeId)}: ` : "";
  let printedCount = 0;
  for await (const line of pages) {
    printedCount += 1;
    terminal.print(
      json
        ? JSON.stringify({ cursor: String(asOf), ...line })
        : prefix(line.nodeId) + (line.mimeType === undefined ? stripControlCharacters(line.text) : `(${line.mimeType})`),
    );
  }
  if (flags.follow !== true || isRunEnded(await client.getRun({ runId }))) {
    if (printedCount === 0 && !json) terminal.info("No matching output.");
    return exitCodes.ok;
  }
  for await (const { id: cursor, type, data } of client.events({
    runId,
    after: String(asOf),
    topics: "run.status,node.result",
    signal,
  })) {
    if (data.kind === "run.status" && isRunEnded(data)) break;
    if (data.kind !== "node.result.delta" || data.operation !== "append") continue;
    const text = data.payload?.["text"];
    if (typeof text !== "string" || (only !== undefined && data.nodeId !== only && data.taskId !== only)) continue;
    if (json) terminal.print(JSON.stringify({ cursor, type, ...data }));
    else
      for (const line of text.replace(/\n$/, "").split("\n")) terminal.print(prefix(data.nodeId) + stripControlCharacters(line));
  }
  return exitCodes.ok;
}

async function loadNodeLabels(client: CommandContext["client"], runId: string): Promise<Map<string, string>> {
  const { nodes = [] } = await client.getRun({ runId });
  return new Map(nodes.map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
}
