// A run as lines of text: state, name, progress, attempt, worker, last words; containers and chains as a tree. Pure: the same run gives the
// same lines, in a terminal, in a pipe and in a test. Who draws them, and when, is in run-following.ts.

import { compilePlan, type Plan } from "@astraflow/graph";
import type { Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import type { WatchedNode } from "./run-state.ts";
import { type Branch, branchesOf, hasEnded, pathOf, plantTree, slotOf } from "./run-tree.ts";
import { cutLine, layTable, type Paint, tame } from "./terminal.ts";

/** Shape and word, never colour alone. */
const looks = {
  queued: { glyph: "◌", word: "waiting", color: "dim" },
  sent: { glyph: "◍", word: "sent", color: "blue" },
  running: { glyph: "◔", word: "running", color: "blue" },
  succeeded: { glyph: "✓", word: "succeeded", color: "green" },
  failed: { glyph: "✕", word: "failed", color: "red" },
  cancelled: { glyph: "⊘", word: "cancelled", color: "dim" },
  skipped: { glyph: "⤼", word: "skipped", color: "dim" },
} as const satisfies Record<string, { glyph: string; word: string; color: keyof Paint }>;

const barCells = 15;
/** A bar with its percentage: the column keeps this width, so that the picture stands still while nodes come and go. */
const progressChars = barCells + 6;
const printedCharsShown = 48;

export interface PictureOptions {
  readonly paint: Paint;
  readonly columns: number;
  readonly now: number;
  readonly url: string;
  /** Lines that fit; absent: as many as there are. */
  readonly rows?: number;
  /** Made from the workflow where it is not given. */
  readonly plan?: Plan;
}

export function drawRun(run: Run, workflow: Workflow, options: PictureOptions): string[] {
  const tree = plantTree(run.runId, run.nodes ?? []);
  const all = branchesOf(options.plan ?? compilePlan(workflow), tree);
  const { shown, left } = fit(all, (options.rows ?? Number.POSITIVE_INFINITY) - 1);
  const lines = layTable(shown.map((branch) => rowOf(branch, options)));
  return [...lines, ...left.map((line) => options.paint.dim(line)), summaryOf(run, all, options)].map((line) =>
    cutLine(line, options.columns),
  );
}

function rowOf(branch: Branch, options: PictureOptions): string[] {
  const { paint } = options;
  const status = branch.status as WatchedNode | null;
  const look = looks[stateOf(status)];
  const name = `${"  ".repeat(branch.depth)}${paint[look.color](look.glyph)}  ${tame(branch.label)}`;
  return [name, progressOf(branch, look.word, options), placeOf(status), wordsOf(branch, paint)];
}

export const isEnded = (run: Pick<Run, "status">): boolean => run.status !== "queued" && run.status !== "running";

/**
 * What fits: first everything that runs, failed or waits; what has ended well goes first, the innermost before the outer ones, then what
 * waits, from the end. What was left out is counted.
 */
function fit(all: readonly Branch[], rows: number): { shown: readonly Branch[]; left: string[] } {
  if (all.length <= rows) return { shown: all, left: [] };
  const room = Math.max(1, rows - 2);
  const isDone = ({ status }: Branch): boolean => hasEnded(status) && status?.status !== "failed";
  const isWaiting = ({ status }: Branch): boolean => status === null || status.status === "queued";
  const gone = new Set<Branch>();
  const drop = (which: (branch: Branch) => boolean, order: readonly Branch[]): number => {
    const before = gone.size;
    for (const branch of order) {
      if (all.length - gone.size <= room) break;
      if (!gone.has(branch) && which(branch)) gone.add(branch);
    }
    return gone.size - before;
  };
  const deepest = all.toSorted((a, b) => b.depth - a.depth);
  const done = drop(isDone, deepest);
  const waiting = drop(isWaiting, all.toReversed());
  const others = drop(() => true, all.toReversed());
  const left = [
    done > 0 ? `${done} more done` : "",
    waiting > 0 ? `${waiting} more wait` : "",
    others > 0 ? `${others} more` : "",
  ];
  return { shown: all.filter((branch) => !gone.has(branch)), left: [`…  ${left.filter(Boolean).join(", ")}`] };
}

/** The line a pipe gets when a task changed; null where nothing changed that a person would call a change. */
export function describeNode(before: RunNodeStatus | undefined, after: RunNodeStatus, place: string): string | null {
  const state = stateOf(after);
  const said = saidOf(after);
  const isSame =
    before !== undefined && stateOf(before) === state && placeOf(before) === placeOf(after) && saidOf(before) === said;
  if (isSame || (!before && state === "queued")) return null;
  const words = [tame(place), looks[state].word, placeOf(after), said];
  return words.filter((word) => word !== "").join(" · ");
}

/** What it said last says nothing any more once it has ended well. */
const saidOf = (node: RunNodeStatus): string => tame(node.error?.message ?? (hasEnded(node) ? "" : (node.state?.message ?? "")));

export const describeEnd = (run: Run): string =>
  `run ${run.runId} ${run.status}${run.error ? ` · ${run.error.code}: ${tame(run.error.message)}` : ""}`;

/** One line per change between two looks at a run, for a pipe or a log. */
export function describeChanges(before: Run | null, after: Run, plan: Plan): string[] {
  const earlier = new Map((before?.nodes ?? []).map((node) => [node.taskId, node]));
  const lines = (after.nodes ?? []).flatMap((node) => {
    const line = describeNode(earlier.get(node.taskId), node, pathOf(plan, slotOf(node.taskId, after.runId)));
    return line === null ? [] : [line];
  });
  return before?.status === after.status ? lines : [...lines, describeEnd(after)];
}

function stateOf(node: RunNodeStatus | null): keyof typeof looks {
  if (!node) return "queued";
  return node.status === "running" && node.pendingAck ? "sent" : node.status;
}

function progressOf({ status, iterations }: Branch, word: string, { paint, now }: PictureOptions): string {
  const progress = status?.state?.progress;
  if (status?.status === "running" && typeof progress === "number") {
    const share = Math.min(1, Math.max(0, progress));
    const full = Math.round(share * barCells);
    return `${paint.blue("━".repeat(full))}${paint.dim("─".repeat(barCells - full))} ${String(Math.round(share * 100)).padStart(3)} %`;
  }
  if (iterations !== undefined && iterations.known > 0)
    return `${word} · ${iterations.ended} of ${iterations.known}`.padEnd(progressChars);
  if (!status?.startedAt) return paint.dim(word.padEnd(progressChars));
  const end = status.finishedAt ? Date.parse(status.finishedAt) : now;
  return `${word} ${seconds(end - Date.parse(status.startedAt))}`.padEnd(progressChars);
}

function placeOf(node: RunNodeStatus | null): string {
  const parts = [(node?.attempt ?? 0) > 1 ? `attempt ${node?.attempt}` : "", node?.workerName ? tame(node.workerName) : ""];
  return parts.filter((part) => part !== "").join(" · ");
}

/** The error, what it prints, what it says of itself, or what it waits for. */
function wordsOf({ status, waitsFor, kind }: Branch, paint: Paint): string {
  const node = status as WatchedNode | null;
  if (node?.error) return paint.red(`${node.error.code}: ${tame(node.error.message)}`);
  if (node?.status === "running") {
    const printed = lastOf(tame(node.printed?.trimEnd().split("\n").at(-1) ?? ""));
    return [tame(node.state?.message ?? ""), printed === "" ? "" : `"${printed}"`].filter(Boolean).join("  ");
  }
  if (node?.why !== undefined && node.status !== "queued") return paint.dim(tame(node.why));
  if ((node !== null && node.status !== "queued") || kind !== "node") return "";
  return paint.dim(waitsFor.length > 0 ? `waits for ${waitsFor.map(tame).join(", ")}` : "waits for a worker");
}

const lastOf = (text: string): string => (text.length > printedCharsShown ? `…${text.slice(-printedCharsShown)}` : text);

function summaryOf(run: Run, all: readonly Branch[], { paint, now, url }: PictureOptions): string {
  const top = all.filter(({ depth }) => depth === 0);
  const done = top.filter(({ status }) => status?.status === "succeeded" || status?.status === "skipped").length;
  const began = run.startedAt ?? run.createdAt;
  const took = began ? ` · ${seconds((run.finishedAt ? Date.parse(run.finishedAt) : now) - Date.parse(began))}` : "";
  return `${paint.bold(run.status)} · ${done} of ${top.length} done${took} · run ${run.runId} · ${paint.dim(url)}`;
}

const seconds = (ms: number): string => `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;
