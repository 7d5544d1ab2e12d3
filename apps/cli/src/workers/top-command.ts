// `astra top`: reads workers, open runs and queues periodically and draws them.

import { setTimeout as pause } from "node:timers/promises";
import type { QueueList, Run, Scaling, Worker } from "@astraflow/protocol";
import type { CommandContext } from "../api/command-context.ts";
import { CliFailure, type ExitCode, exitCodes } from "../output/cli-failure.ts";
import { formatTimeSpan } from "../output/format.ts";
import { chooseColumns, fitTableToWidth, formatTable, pickColumns, type TableCells, truncateLine } from "../output/table.ts";
import { type Colors, type ListenForKeys, stripControlCharacters } from "../output/terminal.ts";
import { formatOldestWait, formatWaitingCount } from "./queue-commands.ts";
import { compareWorkers } from "./worker-commands.ts";
import { describeWorkerState } from "./worker-view.ts";

interface TopFlags {
  readonly once?: boolean;
  readonly every: number;
}

export const refreshMsMin = 100;
const itemsShownMax = 200;

type TopContext = CommandContext & { readonly listenKeys?: ListenForKeys | undefined };

/** Ends with exit code 0 at the key q, on a terminal. */
export async function showTop(context: TopContext, flags: TopFlags): Promise<ExitCode> {
  const quitting = new AbortController();
  const isWatched = context.terminal.isInteractive && !context.json && !flags.once;
  const endListening = isWatched ? context.listenKeys?.((key) => quitKeys.includes(key) && quitting.abort()) : undefined;
  try {
    const code = await refreshUntilStopped(flags, { ...context, signal: AbortSignal.any([context.signal, quitting.signal]) });
    return quitting.signal.aborted ? exitCodes.ok : code;
  } finally {
    endListening?.();
  }
}

const quitKeys: readonly string[] = ["q", "Q"];

async function refreshUntilStopped(flags: TopFlags, context: TopContext): Promise<ExitCode> {
  const { terminal, client, signal } = context;
  let isLost = false;
  let isSeen = false;
  // At once, not after the loop: a pending request may take a while.
  signal.addEventListener("abort", () => terminal.finishDrawing(), { once: true });
  while (!signal.aborted) {
    try {
      const snapshot = await fetchFleetSnapshot(context);
      if (isLost) terminal.info("Reconnected.");
      isLost = false;
      isSeen = true;
      // A snapshot that arrives after the end would be drawn below the last one.
      if (!signal.aborted || !terminal.isInteractive) showSnapshot(snapshot, flags, context);
      if (flags.once) return exitCodes.ok;
    } catch (cause) {
      const isAway = cause instanceof CliFailure && cause.exitCode === exitCodes.unreachable;
      // Before the first snapshot the address may be wrong, so this is a failure.
      if (!isAway || flags.once || !isSeen) throw cause;
      if (!isLost) terminal.info(`the scheduler at ${client.url} does not answer; reconnecting (the last known state is shown)`);
      isLost = true;
    }
    await pause(flags.every, undefined, { signal }).catch((cause: unknown) => {
      // The signal ends the loop, not the command.
      if (!signal.aborted) throw cause;
    });
  }
  return exitCodes.interrupted;
}

async function fetchFleetSnapshot({ client, now }: CommandContext): Promise<FleetSnapshot> {
  const [scaling, workers, runs, queues] = await Promise.all([
    client.getScaling(),
    client.listWorkers({ limit: itemsShownMax }),
    client.listRuns({ limit: itemsShownMax, status: "queued,running" }),
    client.listQueues(),
  ]);
  const sorted = workers.items.toSorted(compareWorkers);
  return { url: client.url, at: now(), scaling, workers: sorted, runs: runs.items, queues: queues.items };
}

function showSnapshot(snapshot: FleetSnapshot, { once }: TopFlags, { terminal, json, listenKeys }: TopContext): void {
  const { scaling, workers, runs, queues, at } = snapshot;
  const { colors: paint, stdoutColumns: width, stderrColumns: columns, stderrRows: rows } = terminal;
  if (json) {
    const data = { at: new Date(at).toISOString(), scaling, workers, runs, queues };
    terminal.print(JSON.stringify({ cursor: String(scaling.asOf), ...data }));
  } else if (terminal.isInteractive && !once)
    terminal.draw(renderTop(snapshot, { paint, columns, rows, isWatched: listenKeys !== undefined }));
  else {
    // With --once a screen gets the whole view, a pipe gets rows.
    const lines = Number.isFinite(width)
      ? renderTop(snapshot, { paint, columns: width, rows: Number.POSITIVE_INFINITY })
      : formatTopRows(snapshot);
    for (const line of lines) terminal.print(line);
  }
}

export interface FleetSnapshot {
  readonly url: string;
  readonly at: number;
  readonly scaling: Scaling;
  /** Connected workers first. */
  readonly workers: readonly Worker[];
  /** Open runs, newest first. */
  readonly runs: readonly Run[];
  readonly queues: QueueList["items"];
}

export interface TopViewOptions {
  readonly paint: Colors;
  readonly columns: number;
  readonly rows: number;
  /** Drawn periodically until a key is pressed. */
  readonly isWatched?: boolean;
}

/** Headers, blank lines, lines that count hidden rows, and the line of the cursor. */
const reservedRows = 12;

export function renderTop(snapshot: FleetSnapshot, options: TopViewOptions): string[] {
  const { paint: colors, columns, rows, isWatched = false } = options;
  const { workers, runs, queues } = snapshot;
  const counts = distributeRows(Math.max(3, rows - reservedRows), [workers.length, runs.length, queues.length]);
  const keys = isWatched ? ` · ${colors.dim("q: quit")}` : "";
  const lines = [
    `${colors.bold("astra top")} · ${snapshot.url} · ${new Date(snapshot.at).toISOString().slice(11, 19)}Z${keys}`,
    formatTotals(snapshot),
    "",
    ...renderTable(workerTable(snapshot), counts[0], "workers", options),
    "",
    ...renderTable(runTable(snapshot), counts[1], "open runs", options),
    ...(queues.length === 0 ? [] : ["", ...renderTable(queueTable(snapshot), counts[2], "queues", options)]),
  ];
  return lines.slice(0, Math.max(1, rows - 1)).map((line) => truncateLine(line, columns));
}

function formatTotals({ scaling }: FleetSnapshot): string {
  const { online, away, lost, draining } = scaling.workers;
  const least = scaling.isPartial ? "+" : "";
  return [
    `${scaling.running}${least} running, ${scaling.queued}${least} queued`,
    `${scaling.slots} slots, ${scaling.free} free`,
    `workers: ${online} online${draining > 0 ? ` (${draining} draining)` : ""}, ${away} away, ${lost} lost`,
  ].join(" · ");
}

/** Shares rows between three tables: what one does not need goes to the others. */
function distributeRows(rowCount: number, wanted: readonly [number, number, number]): [number, number, number] {
  const allotted: [number, number, number] = [0, 0, 0];
  for (let hiddenCount = rowCount, at = 0, full = 0; hiddenCount > 0 && full < 3; at = (at + 1) % 3) {
    if ((allotted[at] ?? 0) >= (wanted[at] ?? 0)) full += 1;
    else {
      allotted[at] = (allotted[at] ?? 0) + 1;
      hiddenCount -= 1;
      full = 0;
    }
  }
  return allotted;
}

function workerTable({ workers, at }: FleetSnapshot): TableCells {
  const percent = (value: number | undefined): string => (value === undefined ? "-" : `${Math.round(value)} %`);
  const rows = workers.map((worker) => {
    const metrics = worker.heartbeat?.metrics;
    const slots = worker.capabilities?.concurrency.maxParallel;
    return [
      stripControlCharacters(worker.id),
      describeWorkerState(worker),
      `${metrics?.inflight ?? "-"}/${slots ?? "-"}`,
      percent(metrics?.cpuPct),
      percent(metrics?.memPct),
      `${formatTimeSpan(at - Date.parse(worker.lastHeartbeatAt))} ago`,
    ];
  });
  return [["WORKER", "STATE", "HOLDS", "CPU", "MEMORY", "SEEN"], ...rows];
}

function runTable({ runs, at }: FleetSnapshot): TableCells {
  const rows = runs.map((run) => [
    run.runId,
    run.status,
    formatTimeSpan(at - Date.parse(run.startedAt ?? run.createdAt ?? new Date(at).toISOString())),
    String(run.openTasks ?? "-"),
    stripControlCharacters(run.name ?? "-"),
  ]);
  return [["RUN", "STATUS", "FOR", "OPEN", "WORKFLOW"], ...rows];
}

function queueTable({ queues }: FleetSnapshot): TableCells {
  const rows = queues.map((queue) => [
    stripControlCharacters(queue.needs.nodeType),
    formatWaitingCount(queue),
    formatOldestWait(queue) || "-",
    String(queue.workers.fitting),
  ]);
  return [["WAITS FOR", "TASKS", "OLDEST", "FIT"], ...rows];
}

const statusColors: Readonly<Record<string, keyof Colors>> = {
  online: "green",
  running: "blue",
  lost: "red",
  away: "dim",
  queued: "dim",
};

function renderTable(table: TableCells, rowCount: number, what: string, { paint: colors, columns }: TopViewOptions): string[] {
  const [head = []] = table;
  if (table.length === 1) return [colors.dim(`no ${what}`)];
  // The first two columns of each table, which name the item and its state, are kept on a narrow screen.
  const layouts = head.map((name, at) => ({
    ...(name === "RUN" && { kind: "id" as const }),
    ...(at < 2 && { isKept: true as const }),
  }));
  const paint = (cell: string): string => (statusColors[cell] === undefined ? cell : colors[statusColors[cell]](cell));
  const cells = table.slice(0, rowCount + 1);
  const places = chooseColumns(cells, layouts, columns);
  const own = layouts.filter((_, at) => places.includes(at));
  const [fittedHead = [], ...shown] = fitTableToWidth(pickColumns(cells, places), own, columns);
  const hiddenCount = table.length - 1 - rowCount;
  return [
    ...formatTable([fittedHead, ...shown.map((row) => row.map(paint))]),
    ...(hiddenCount > 0 ? [colors.dim(`and ${hiddenCount} more ${what}`)] : []),
  ];
}

/** For a pipe: one row per item, beginning with its kind. */
export function formatTopRows(snapshot: FleetSnapshot): string[] {
  const at = new Date(snapshot.at).toISOString();
  const rows = (what: string, table: TableCells): string[] => table.slice(1).map((row) => [at, what, ...row].join("\t"));
  return [
    `${at}\tfleet\t${formatTotals(snapshot)}`,
    ...rows("worker", workerTable(snapshot)),
    ...rows("run", runTable(snapshot)),
    ...rows("queue", queueTable(snapshot)),
  ];
}
