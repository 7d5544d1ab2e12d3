// A run as lines of text: state, name, progress, attempt, worker, last words. Pure: the same run gives the same lines, in a
// terminal, in a pipe and in a test. Who draws them, and when, is in run-following.ts.

import type { Run, RunNodeStatus, Workflow } from "@astraflow/protocol";
import { layTable, type Paint, tame } from "./terminal.ts";

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

export interface PictureOptions {
  readonly paint: Paint;
  readonly columns: number;
  readonly now: number;
  readonly url: string;
}

export function drawRun(run: Run, workflow: Workflow, options: PictureOptions): string[] {
  const { paint } = options;
  const byNode = new Map((run.nodes ?? []).map((node) => [node.nodeId, node]));
  const labels = new Map(workflow.nodes.map((node) => [node.id, tame(node.label)]));
  const rows = workflow.nodes.map((node) => {
    const status = byNode.get(node.id);
    const look = looks[stateOf(status)];
    const cells = [
      paint[look.color](look.glyph),
      labels.get(node.id) ?? node.id,
      progressOf(status, look.word, options),
      placeOf(status),
    ];
    return [...cells, wordsOf(status, waitsFor(node.id, { workflow, byNode, labels }), paint)];
  });
  return [...layTable(rows), summaryOf(run, workflow, options)].map((line) => cut(line, options.columns));
}

export const isEnded = (run: Pick<Run, "status">): boolean => run.status !== "queued" && run.status !== "running";

/** One line per change between two looks at a run, for a pipe or a log. */
export function describeChanges(before: Run | null, after: Run, workflow: Workflow): string[] {
  const labels = new Map(workflow.nodes.map((node) => [node.id, tame(node.label)]));
  const earlier = new Map((before?.nodes ?? []).map((node) => [node.nodeId, node]));
  const lines: string[] = [];
  for (const node of after.nodes ?? []) {
    const old = earlier.get(node.nodeId);
    const state = stateOf(node);
    const isSame = stateOf(old) === state && old?.attempt === node.attempt && old?.state?.message === node.state?.message;
    if (isSame || (!old && state === "queued")) continue;
    const words = [
      labels.get(node.nodeId) ?? node.nodeId,
      looks[state].word,
      placeOf(node),
      tame(node.error?.message ?? node.state?.message ?? ""),
    ];
    lines.push(words.filter((word) => word !== "").join(" · "));
  }
  if (before?.status !== after.status)
    lines.push(`run ${after.runId} ${after.status}${after.error ? ` · ${after.error.code}: ${tame(after.error.message)}` : ""}`);
  return lines;
}

function stateOf(node: RunNodeStatus | undefined): keyof typeof looks {
  if (!node) return "queued";
  return node.status === "running" && node.pendingAck ? "sent" : node.status;
}

function progressOf(node: RunNodeStatus | undefined, word: string, { paint, now }: PictureOptions): string {
  const progress = node?.state?.progress;
  if (node?.status === "running" && typeof progress === "number") {
    const full = Math.round(Math.min(1, Math.max(0, progress)) * barCells);
    return `${paint.blue("━".repeat(full))}${paint.dim("─".repeat(barCells - full))} ${String(Math.round(progress * 100)).padStart(3)} %`;
  }
  if (!node?.startedAt) return paint.dim(word.padEnd(progressChars));
  const end = node.finishedAt ? Date.parse(node.finishedAt) : now;
  return `${word} ${seconds(end - Date.parse(node.startedAt))}`.padEnd(progressChars);
}

function placeOf(node: RunNodeStatus | undefined): string {
  const parts = [(node?.attempt ?? 0) > 1 ? `attempt ${node?.attempt}` : "", node?.workerName ? tame(node.workerName) : ""];
  return parts.filter((part) => part !== "").join(" · ");
}

function wordsOf(node: RunNodeStatus | undefined, waits: string, paint: Paint): string {
  if (node?.error) return paint.red(`${node.error.code}: ${tame(node.error.message)}`);
  if (node?.status === "running" && node.state?.message) return `"${tame(node.state.message)}"`;
  return !node || node.status === "queued" ? paint.dim(waits) : "";
}

function waitsFor(
  id: string,
  known: { workflow: Workflow; byNode: Map<string, RunNodeStatus>; labels: Map<string, string> },
): string {
  const open = known.workflow.edges
    .filter((edge) => edge.target.node === id && known.byNode.get(edge.source.node)?.status !== "succeeded")
    .map((edge) => known.labels.get(edge.source.node) ?? edge.source.node);
  const names = [...new Set(open)];
  return names.length > 0 ? `waits for ${names.join(", ")}` : "waits for a worker";
}

function summaryOf(run: Run, workflow: Workflow, { paint, now, url }: PictureOptions): string {
  const done = (run.nodes ?? []).filter((node) => ["succeeded", "skipped"].includes(node.status)).length;
  const began = run.startedAt ?? run.createdAt;
  const took = began ? ` · ${seconds((run.finishedAt ? Date.parse(run.finishedAt) : now) - Date.parse(began))}` : "";
  return `${paint.bold(run.status)} · ${done} of ${workflow.nodes.length} done${took} · run ${run.runId} · ${paint.dim(url)}`;
}

const seconds = (ms: number): string => `${(Math.max(0, ms) / 1_000).toFixed(1)} s`;

/** A line longer than the screen would wrap and break the picture; colours are dropped from what is cut. */
function cut(line: string, columns: number): string {
  const plain = [...line.replace(/\u001b\[[0-9;]*m/g, "")];
  return plain.length < columns ? line : `${plain.slice(0, columns - 2).join("")}…`;
}
