// `astra runs list|show|watch|logs|export|ledger`: reading runs. Comparing two is in diff-command.ts, changing them in change-commands.ts.

import { allItems } from "@astraflow/client";
import type { Ledger, Run } from "@astraflow/protocol";
import { type CommandContext, printItem, printPage, type TextInput } from "../api/command-context.ts";
import { buildRunListQuery, listRunsOfWorker, type RunFilterFlags } from "../lookup/list-filters.ts";
import { findNodeOrTaskId, findRunId } from "../lookup/name-lookup.ts";
import { type PageFlags, readListPage } from "../lookup/pages.ts";
import { type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatInstant, formatRunDuration } from "../output/format.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { listFactPages } from "./run-follower.ts";
import { describeResults } from "./run-results.ts";
import { isRunEnded, statusColor } from "./run-status.ts";
import { describeRunError, describeWarnings, renderRun } from "./run-view.ts";
import { followToEnd } from "./start-command.ts";

export async function listRuns(context: CommandContext, flags: RunFilterFlags & PageFlags): Promise<ExitCode> {
  const { query, worker } = await buildRunListQuery(flags, context);
  const page =
    worker === undefined || flags.all === true || flags.cursor !== undefined
      ? await readListPage(flags, (paging) => context.client.listRuns({ ...query, worker, ...paging }))
      : await listRunsOfWorker(worker, query, flags.limit, context);
  return printPage<Run>(context, page, {
    id: (run) => run.runId,
    columns: [
      { header: "RUN", value: (run) => run.runId, kind: "id", isKept: true },
      { header: "STATUS", value: (run) => run.status, isKept: true, color: ({ status }) => statusColor(status) },
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
  });
}

/** `at` is a log position: shows the run as it was then. */
export async function showRun(context: CommandContext, { run: id, at }: TextInput<"run"> & { at?: number }): Promise<ExitCode> {
  const { client, terminal, json } = context;
  const runId = await findRunId(id, client);
  const run = await client.getRun({ runId, at });
  if (json) return printItem(context, run, []);
  const workflow = await client.getRunDefinition({ runId });
  const columns = terminal.stdoutColumns;
  const now = at === undefined ? context.now() : lastInstant(run);
  for (const line of renderRun(run, workflow, { paint: terminal.colors, columns, now, url: client.url })) terminal.print(line);
  if (at !== undefined) terminal.info(`State at log position ${at}; current state: astra runs show ${runId}`);
  const artifacts = (run.artifacts ?? []).map((one) => `artifact ${one.resourceId} (${one.type}) at ${one.workerName}`);
  return printItem(context, run, [
    ...describeRunError(run),
    ...describeWarnings(run),
    ...artifacts,
    ...describeResults(run, workflow),
  ]);
}

/** The last instant in a past state of a run, which stands for "now" in it. */
function lastInstant({ createdAt, startedAt, finishedAt, nodes = [] }: Run): number {
  const instants = [createdAt, startedAt, finishedAt, ...nodes.flatMap((node) => [node.startedAt, node.finishedAt])];
  return Math.max(0, ...instants.flatMap((instant) => (instant === undefined ? [] : [Date.parse(instant)])));
}

/** Counts of dispatched tasks and their outcomes, of one run or of the whole log page by page. */
export async function showLedger(context: CommandContext, { run: id }: TextInput<never, "run">): Promise<ExitCode> {
  const { client } = context;
  if (id !== undefined) return printLedger(context, await client.getRunLedger({ runId: await findRunId(id, client) }));
  let code: ExitCode = exitCodes.ok;
  for (let after: number | undefined; ; ) {
    const ledger = await client.getLedger({ after });
    const isAll = after === undefined && ledger.next === null;
    const page = isAll ? ledger : { cursor: String(ledger.to), ...ledger };
    code = printLedger(context, page) || code;
    if (ledger.next === null) return code;
    after = ledger.next;
  }
}

function printLedger(context: CommandContext, ledger: Pick<Ledger, "figures" | "from" | "to">): ExitCode {
  const { figures, from, to } = ledger;
  const counts = Object.entries(figures).map(([name, count]) => [ledgerLabels[name] ?? name, String(count)]);
  printItem(context, ledger, formatTextTable([["facts", `${from}..${to}`], ...counts]));
  const { lost, twice } = figures;
  if (lost === 0 && twice === 0) return exitCodes.ok;
  // Neither may ever happen, so the exit code reports it too.
  const message = `Tasks lost: ${lost}, accepted twice: ${twice}. This is a bug; please report it.\n`;
  if (!context.json) context.terminal.error(message);
  return exitCodes.failed;
}

const ledgerLabels: Readonly<Record<string, string>> = { refusedLate: "refused, too late" };

export async function watchRunToEnd(context: CommandContext, { run: id }: TextInput<"run">): Promise<ExitCode> {
  return followToEnd(context, await findRunId(id, context.client), true);
}

/**
 * Prints a line with the definition, the facts in order, and a line with the final state. The run is read before its facts: if it has ended,
 * the facts that are read afterwards are complete.
 */
export async function exportRun({ client, terminal, now }: CommandContext, { run: id }: TextInput<"run">): Promise<ExitCode> {
  const runId = await findRunId(id, client);
  const run = await client.getRun({ runId });
  terminal.print(JSON.stringify({ kind: "definition", runId, definition: await client.getRunDefinition({ runId }) }));
  const startedAt = now();
  let count = 0;
  for await (const facts of listFactPages(client, runId)) {
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

/** Prints the output of nodes, line by line; with --follow also new output. */
export async function showLogs(
  { client, terminal, json, signal }: CommandContext,
  flags: TextInput<"run", "node" | "channel" | "search"> & { follow?: boolean },
): Promise<ExitCode> {
  const runId = await findRunId(flags.run, client);
  const only = flags.node === undefined ? undefined : await findNodeOrTaskId(flags.node, runId, client);
  const { nodes = [] } = await client.getRun({ runId });
  const labels = new Map(nodes.map(({ nodeId, label }) => [nodeId, label ?? nodeId]));
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
  const events = client.events({ runId, after: String(asOf), topics: "run.status,node.result", signal });
  for await (const { id: cursor, type, data } of events) {
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
