// A run as lines of text; containers and chains as a tree. Pure. When they are drawn is in run-follower.ts.

import { compilePlan, type Plan } from "@astraflow/graph";
import type { Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import { formatTable, truncate, truncateLine, truncateStart } from "../output/table.ts";
import { type Colors, stripControlCharacters } from "../output/terminal.ts";
import { isFinalStatus, statusStyles } from "./run-status.ts";
import { describeTaskPath, RunTree, type RunTreeRow, taskSlot } from "./run-tree.ts";

const barCells = 15;
/** The width of a bar with its percentage: the column keeps it, so that the display does not jump. */
const progressWidth = barCells + 6;
const printedWidthMax = 49;
/** Below this width of the terminal a bar and a detail would push status and worker out of the line. */
const narrowColumns = 64;

export interface RunViewOptions {
  readonly paint: Colors;
  readonly columns: number;
  readonly now: number;
  readonly url: string;
  /** How many lines fit; absent: all. */
  readonly rows?: number;
  /** Compiled from the workflow by default. */
  readonly plan?: Plan;
}

export function renderRun(run: Run, workflow: Workflow, options: RunViewOptions): string[] {
  const all = new RunTree(run.runId, run.nodes ?? []).rows(options.plan ?? compilePlan(workflow));
  const { shown, left: hiddenSummary } = selectVisibleRows(all, (options.rows ?? Number.POSITIVE_INFINITY) - 1);
  const isNarrow = options.columns < narrowColumns;
  const lines = formatTable(shown.map((row) => (isNarrow ? renderNarrowRow(row, options) : renderRow(row, options))));
  return [...lines, ...hiddenSummary.map((line) => options.paint.dim(line)), formatRunSummary(run, all, options)].map((line) =>
    truncateLine(line, options.columns),
  );
}

function renderRow(row: RunTreeRow, options: RunViewOptions): string[] {
  const { paint: colors } = options;
  const { status } = row;
  const style = statusStyles[displayStatus(status)];
  const name = `${"  ".repeat(row.depth)}${colors[style.color](style.glyph)}  ${stripControlCharacters(row.label)}`;
  return [name, formatProgress(row, style.word, options), formatAttemptAndWorker(status), formatNodeDetail(row, colors)];
}

/** Status and worker keep their place: label and worker are cut, bar and detail are left out. */
function renderNarrowRow({ label, depth, status }: RunTreeRow, { columns }: RunViewOptions): string[] {
  const { glyph, word } = statusStyles[displayStatus(status)];
  const worker = truncate(formatAttemptAndWorker(status), Math.floor(columns / 3));
  const name = `${"  ".repeat(depth)}${glyph} ${stripControlCharacters(label)}`;
  return [truncate(name, Math.floor(columns / 3)), word.slice(0, Math.floor(columns / 4)), worker];
}

/**
 * Chooses the rows that fit. Hidden first are those that ended well, the innermost before the outer ones, then those that wait, from the
 * end. Hidden rows are counted.
 */
function selectVisibleRows(all: readonly RunTreeRow[], rows: number): { shown: readonly RunTreeRow[]; left: string[] } {
  if (all.length <= rows) return { shown: all, left: [] };
  const rowsLeft = Math.max(1, rows - 2);
  const isDone = ({ status }: RunTreeRow): boolean => isFinalStatus(status?.status) && status?.status !== "failed";
  const isWaiting = ({ status }: RunTreeRow): boolean => status === null || status.status === "queued";
  const hidden = new Set<RunTreeRow>();
  const drop = (which: (row: RunTreeRow) => boolean, order: readonly RunTreeRow[]): number => {
    const before = hidden.size;
    for (const row of order) {
      if (all.length - hidden.size <= rowsLeft) break;
      if (!hidden.has(row) && which(row)) hidden.add(row);
    }
    return hidden.size - before;
  };
  const deepest = all.toSorted((a, b) => b.depth - a.depth);
  const done = drop(isDone, deepest);
  const waiting = drop(isWaiting, all.toReversed());
  const others = drop(() => true, all.toReversed());
  const hiddenSummary = [
    done > 0 ? `${done} more done` : "",
    waiting > 0 ? `${waiting} more wait` : "",
    others > 0 ? `${others} more` : "",
  ];
  return { shown: all.filter((row) => !hidden.has(row)), left: [`…  ${hiddenSummary.filter(Boolean).join(", ")}`] };
}

/** The line for a changed task; null where nothing visible changed. */
export function describeNodeChange(before: RunNodeStatus | undefined, after: RunNodeStatus, path: string): string | null {
  const state = displayStatus(after);
  const message = lastMessage(after);
  const isSame =
    before !== undefined &&
    displayStatus(before) === state &&
    formatAttemptAndWorker(before) === formatAttemptAndWorker(after) &&
    lastMessage(before) === message;
  if (isSame || (!before && state === "queued")) return null;
  const parts = [stripControlCharacters(path), statusStyles[state].word, formatAttemptAndWorker(after), message];
  return parts.filter((label) => label !== "").join(" · ");
}

/** The error, else the last warning, else the last message of a task that has not ended. */
const lastMessage = (node: RunNodeStatus): string =>
  stripControlCharacters(
    node.error?.message ?? lastWarning(node) ?? (isFinalStatus(node.status) ? "" : (node.state?.message ?? "")),
  );

function lastWarning({ warnings }: RunNodeStatus): string | undefined {
  const last = warnings?.at(-1);
  return last === undefined ? undefined : `warning: ${last.message}`;
}

/** One line per value of the run that did not match its schema and did not fail its node. */
export const describeWarnings = ({ nodes = [] }: Run): string[] =>
  nodes.flatMap(({ warnings = [] }) =>
    warnings.map(({ code, message }) => stripControlCharacters(`warning ${code}: ${message}`)),
  );

/** The error of a run, and where in its package the handler failed. */
export function describeRunError({ error }: Run): string[] {
  if (error === undefined) return [];
  const stack = error.details?.["stack"];
  // The first line of a stack repeats the message.
  const frames = typeof stack === "string" ? stack.split("\n").filter((line) => /^\s+at /.test(line)) : [];
  return [`${error.code}: ${error.message}`, ...frames].map((line) => stripControlCharacters(line));
}

export const describeRunStatus = (run: Run): string =>
  `run ${run.runId} ${run.status}${run.error ? ` · ${run.error.code}: ${stripControlCharacters(run.error.message)}` : ""}`;

/** One line per change between two states of a run, for a pipe or a log. */
export function describeRunChanges(before: Run | null, after: Run, plan: Plan): string[] {
  const earlier = new Map((before?.nodes ?? []).map((node) => [node.taskId, node]));
  const lines = (after.nodes ?? []).flatMap((node) => {
    const line = describeNodeChange(earlier.get(node.taskId), node, describeTaskPath(plan, taskSlot(node.taskId, after.runId)));
    return line === null ? [] : [line];
  });
  return before?.status === after.status ? lines : [...lines, describeRunStatus(after)];
}

function displayStatus(node: RunNodeStatus | null): keyof typeof statusStyles {
  if (!node) return "queued";
  return node.status === "running" && node.pendingAck ? "sent" : node.status;
}

function formatProgress({ status, iterations }: RunTreeRow, label: string, { paint: colors, now }: RunViewOptions): string {
  const progress = status?.state?.progress;
  if (status?.status === "running" && typeof progress === "number") {
    const share = Math.min(1, Math.max(0, progress));
    const full = Math.round(share * barCells);
    return `${colors.blue("━".repeat(full))}${colors.dim("─".repeat(barCells - full))} ${String(Math.round(share * 100)).padStart(3)} %`;
  }
  if (iterations !== undefined && iterations.known > 0)
    return `${label} · ${iterations.ended} of ${iterations.known}`.padEnd(progressWidth);
  if (!status?.startedAt) return colors.dim(label.padEnd(progressWidth));
  const end = status.finishedAt ? Date.parse(status.finishedAt) : now;
  return `${label} ${formatSeconds(end - Date.parse(status.startedAt))}`.padEnd(progressWidth);
}

function formatAttemptAndWorker(node: RunNodeStatus | null): string {
  const parts = [
    (node?.attempt ?? 0) > 1 ? `attempt ${node?.attempt}` : "",
    node?.workerName ? stripControlCharacters(node.workerName) : "",
  ];
  return parts.filter((part) => part !== "").join(" · ");
}

/** The error, the message and last output of a running task, the last warning, or what the task waits for. */
function formatNodeDetail({ status: node, waitsFor, kind }: RunTreeRow, colors: Colors): string {
  if (node?.error) return colors.red(`${node.error.code}: ${stripControlCharacters(node.error.message)}`);
  if (node?.status === "running") {
    const printed = truncateStart(stripControlCharacters(node.printed?.trimEnd().split("\n").at(-1) ?? ""), printedWidthMax);
    return [stripControlCharacters(node.state?.message ?? ""), printed === "" ? "" : `"${printed}"`].filter(Boolean).join("  ");
  }
  const warning = node === null ? undefined : lastWarning(node);
  if (warning !== undefined) return colors.yellow(stripControlCharacters(warning));
  if (node?.why !== undefined && node.status !== "queued") return colors.dim(stripControlCharacters(node.why));
  if ((node !== null && node.status !== "queued") || kind !== "node") return "";
  return colors.dim(waitsFor.length > 0 ? `waits for ${waitsFor.map(stripControlCharacters).join(", ")}` : "waits for a worker");
}

function formatRunSummary(run: Run, all: readonly RunTreeRow[], { paint: colors, now, url }: RunViewOptions): string {
  const top = all.filter(({ depth }) => depth === 0);
  const done = top.filter(({ status }) => status?.status === "succeeded" || status?.status === "skipped").length;
  const began = run.startedAt ?? run.createdAt;
  const took = began ? ` · ${formatSeconds((run.finishedAt ? Date.parse(run.finishedAt) : now) - Date.parse(began))}` : "";
  return `${colors.bold(run.status)} · ${done} of ${top.length} done${took} · run ${run.runId} · ${colors.dim(`${url}/#${run.runId}`)}`;
}

const formatSeconds = (ms: number): string => `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
