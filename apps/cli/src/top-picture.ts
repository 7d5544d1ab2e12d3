// The fleet and its runs at one moment as lines of text. Pure; who looks, and how often, is in top-command.ts.

import type { QueueList, Run, Scaling, Worker } from "@astraflow/protocol";
import { span } from "./place.ts";
import { cutLine, fitRows, layTable, type Paint, tame } from "./terminal.ts";
import { stateOf } from "./worker-picture.ts";

export interface Moment {
  readonly url: string;
  readonly at: number;
  readonly scaling: Scaling;
  /** Those that are there, then those that were. */
  readonly workers: readonly Worker[];
  /** Those that are open, newest first. */
  readonly runs: readonly Run[];
  readonly queues: QueueList["items"];
}

export interface TopOptions {
  readonly paint: Paint;
  readonly columns: number;
  readonly rows: number;
  /** It is drawn again and again, and ends at a key. */
  readonly isWatched?: boolean;
}

/** Heads, blank lines, the lines that count what was left out, and the one where the cursor stands. */
const frameRows = 12;

export function drawTop(moment: Moment, { paint, columns, rows, isWatched = false }: TopOptions): string[] {
  const [workers, runs, queues] = share(Math.max(3, rows - frameRows), [
    moment.workers.length,
    moment.runs.length,
    moment.queues.length,
  ]);
  const keys = isWatched ? ` · ${paint.dim("q: quit")}` : "";
  const lines = [
    `${paint.bold("astra top")} · ${moment.url} · ${new Date(moment.at).toISOString().slice(11, 19)}Z${keys}`,
    sumsOf(moment),
    "",
    ...part(workerTable(moment), workers, "workers", { paint, columns }),
    "",
    ...part(runTable(moment), runs, "open runs", { paint, columns }),
    ...(moment.queues.length === 0 ? [] : ["", ...part(queueTable(moment), queues, "queues", { paint, columns })]),
  ];
  return lines.slice(0, Math.max(1, rows - 1)).map((line) => cutLine(line, columns));
}

function sumsOf({ scaling }: Moment): string {
  const { online, away, lost, draining } = scaling.workers;
  const least = scaling.isPartial ? "+" : "";
  return [
    `${scaling.running}${least} running, ${scaling.queued}${least} queued`,
    `${scaling.slots} slots, ${scaling.free} free`,
    `workers: ${online} online${draining > 0 ? ` (${draining} draining)` : ""}, ${away} away, ${lost} lost`,
  ].join(" · ");
}

/** Rows for each of three tables: what one does not need goes to the others. */
function share(room: number, wanted: readonly [number, number, number]): [number, number, number] {
  const given: [number, number, number] = [0, 0, 0];
  for (let left = room, at = 0, full = 0; left > 0 && full < 3; at = (at + 1) % 3) {
    if ((given[at] ?? 0) >= (wanted[at] ?? 0)) full += 1;
    else {
      given[at] = (given[at] ?? 0) + 1;
      left -= 1;
      full = 0;
    }
  }
  return given;
}

type Table = readonly (readonly string[])[];

function workerTable({ workers, at }: Moment): Table {
  const percent = (value: number | undefined): string => (value === undefined ? "-" : `${Math.round(value)} %`);
  const rows = workers.map((worker) => {
    const metrics = worker.heartbeat?.metrics;
    const slots = worker.capabilities?.concurrency.maxParallel;
    return [
      tame(worker.id),
      stateOf(worker),
      `${metrics?.inflight ?? "-"}/${slots ?? "-"}`,
      percent(metrics?.cpuPct),
      percent(metrics?.memPct),
      `${span(at - Date.parse(worker.lastHeartbeatAt))} ago`,
    ];
  });
  return [["WORKER", "STATE", "HOLDS", "CPU", "MEMORY", "SEEN"], ...rows];
}

function runTable({ runs, at }: Moment): Table {
  const rows = runs.map((run) => [
    run.runId,
    run.status,
    span(at - Date.parse(run.startedAt ?? run.createdAt ?? new Date(at).toISOString())),
    String(run.openTasks ?? "-"),
    tame(run.name ?? "-"),
  ]);
  return [["RUN", "STATUS", "FOR", "OPEN", "WORKFLOW"], ...rows];
}

function queueTable({ queues }: Moment): Table {
  const rows = queues.map((queue) => [
    tame(queue.needs.nodeType),
    `${queue.waiting}${queue.isPartial ? "+" : ""}`,
    queue.oldestWaitMs === undefined ? "-" : span(queue.oldestWaitMs),
    String(queue.workers.fitting),
  ]);
  return [["WAITS FOR", "TASKS", "OLDEST", "FIT"], ...rows];
}

const tones: Readonly<Record<string, keyof Paint>> = {
  online: "green",
  running: "blue",
  lost: "red",
  away: "dim",
  queued: "dim",
};

function part(table: Table, room: number, what: string, { paint, columns }: Pick<TopOptions, "paint" | "columns">): string[] {
  if (table.length === 1) return [paint.dim(`no ${what}`)];
  const shown = fitRows(
    table.slice(0, room + 1),
    (table[0] ?? []).map((head) => (head === "RUN" ? { kind: "id" } : {})),
    columns,
  );
  const painted = shown.map((row, at) =>
    at === 0 ? row : row.map((cell) => (tones[cell] === undefined ? cell : paint[tones[cell]](cell))),
  );
  const left = table.length - 1 - room;
  return [...layTable(painted), ...(left > 0 ? [paint.dim(`and ${left} more ${what}`)] : [])];
}

/** For a pipe: one row a thing, what it is first. */
export function topRows(moment: Moment): string[] {
  const at = new Date(moment.at).toISOString();
  const rows = (what: string, table: Table): string[] => table.slice(1).map((row) => [at, what, ...row].join("\t"));
  return [
    `${at}\tfleet\t${sumsOf(moment)}`,
    ...rows("worker", workerTable(moment)),
    ...rows("run", runTable(moment)),
    ...rows("queue", queueTable(moment)),
  ];
}
