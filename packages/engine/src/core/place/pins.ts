// Where a ready task may go: only to the worker that owns what it refers to, to the one that an operator named, to the one that its
// affinity key belongs to, or to any. Looked at when a task gets in line and again before it is granted: owners come and go meanwhile.

import type { PlanNode } from "@astraflow/graph";
import type { FaultData, ResourceRef } from "../../effect.ts";
import type { DocRow, Line, Millis, RunRow, TaskId, TaskRow, WorkerId, WorkerRow } from "../../rows.ts";
import { docKey } from "../../rows.ts";
import type { Board } from "../board/board.ts";
import type { Seat } from "../crew/floor.ts";
import { failTask } from "../flow/end.ts";
import { wantedAt } from "../flow/marks.ts";
import { stateOf, type TaskState, withState } from "../rows/state.ts";
import { moveTask } from "../rows/task.ts";
import type { Tools } from "../tools.ts";
import { keepAffinity, ownerOf, preferMs } from "./affinity.ts";
import { artifactOf, readArtifact, touchArtifact } from "./artifacts.ts";
import { queueDue } from "./line.ts";
import { postLine } from "./post.ts";
import { refsOf, type WantedRef } from "./refs.ts";
import { announcedBy, fits, needsOf, versionAt } from "./route.ts";

/** A pinned task is looked at this often although nothing was heard of its worker: words about lost workers may have been missed. */
const pinCheckMs = 60_000;

/** A task and what is known about where it may go. `lost`: a worker whose loss is decided in this very turn, so that no row shows it yet. */
interface Asking {
  readonly board: Board;
  readonly tools: Tools;
  readonly run: RunRow;
  readonly node: PlanNode;
  readonly task: TaskRow;
  readonly lost: WorkerId | null;
}

/** The ready task in the line where it belongs now; null: what it needs is gone and it has failed. */
export function bindTask(
  board: Board,
  tools: Tools,
  run: RunRow,
  node: PlanNode,
  task: TaskRow,
  lost: WorkerId | null = null,
): TaskRow | null {
  const refs = refsOf(node, task.params);
  if (task.pin === null && run.marks === null && node.policy.affinity === undefined && refs.length === 0) return task;
  const want = pinOf({ board, tools, run, node, task, lost }, refs);
  if (typeof want === "object" && want !== null) {
    failTask(board, tools, run, task, want, null);
    return null;
  }
  const line = tools.floor.lineOf(task.route, want);
  const isSettled = task.pin === want && task.line === line && (want === null || (task.due !== null && task.due > board.now));
  if (isSettled) return task;
  const moved = moveTask(task, { type: "repin", pin: want, line, due: dueOf(board, tools, node, task, want) }, board.now);
  board.put(moved);
  if (want !== null) callOwner(board, tools, run, want, line);
  return moved;
}

/** Whoever holds the worker's socket looks at its line, though every hint of it were lost. */
function callOwner(board: Board, tools: Tools, run: RunRow, worker: WorkerId, line: Line): void {
  const row = tools.floor.seats.has(worker) ? null : board.address(worker);
  if (row === null) board.move({ move: "heat", line });
  else postLine(board, tools, row, run.id, line);
}

/** End of its time in queue, or the next look at its pin. */
function dueOf(board: Board, tools: Tools, node: PlanNode, task: TaskRow, pin: WorkerId | null): Millis | null {
  const queue = queueDue(tools, node, task.readyAt ?? board.now);
  if (pin === null) return queue;
  // An operator may have sent a task here that would only have preferred to be: its preference is over then, its pin is not.
  const isPreferring = node.policy.affinity?.mode === "preferred" && preferUntil(board, task) > board.now;
  const look = isPreferring ? preferUntil(board, task) : board.now + pinCheckMs;
  return queue === null ? look : Math.min(queue, look);
}

const preferUntil = (board: Board, task: TaskRow): Millis => (task.readyAt ?? board.now) + preferMs;

/** What is due of a ready task is its pin and not its time in queue. False: it has waited too long. */
export function lookAtPin(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow): boolean {
  const queue = queueDue(tools, node, task.readyAt ?? board.now);
  if (task.phase !== "ready" || task.pin === null || (queue !== null && queue <= board.now)) return false;
  bindAnew(board, tools, run, node, task, null);
  return true;
}

/** A resource is gone: a task that waits for it fails now, though its worker be busy for long. */
export function lookAtRef(board: Board, tools: Tools, id: TaskId, resource: string): void {
  const task = board.task(id);
  const run = task === null ? null : board.run(task.run);
  if (task?.phase !== "ready" || task.pin === null || run === null || run.phase === "ending") return;
  const node = tools.plans.nodeOf(board, run, task);
  if (refsOf(node, task.params).some((ref) => ref.resource === resource)) bindAnew(board, tools, run, node, task, null);
}

/** The worker that a task waits for was lost. False: it must be looked at again later. */
export function losePin(board: Board, tools: Tools, task: TaskRow, worker: WorkerRow): boolean {
  const run = board.run(task.run);
  if (run === null || (run.phase !== "queued" && run.phase !== "running")) return false;
  bindAnew(board, tools, run, tools.plans.nodeOf(board, run, task), task, worker.id);
  return true;
}

function bindAnew(board: Board, tools: Tools, run: RunRow, node: PlanNode, task: TaskRow, lost: WorkerId | null): void {
  const bound = bindTask(board, tools, run, node, task, lost);
  if (bound !== null && bound.line !== task.line) board.fresh.push(bound.id);
}

function pinOf(asking: Asking, refs: readonly WantedRef[]): WorkerId | FaultData | null {
  if (refs.length > 0) return ownerOfAll(asking, refs);
  const { board, run, node, task, lost } = asking;
  const marked = wantedAt(run, node);
  if (marked !== undefined && canServe(asking, marked)) return marked;
  const { affinity } = node.policy;
  if (affinity === undefined) return task.pin !== null && canServe(asking, task.pin) ? task.pin : null;
  const owner = ownerOf(board, run.tenant, affinity.key, lost);
  if (owner === null || affinity.mode !== "preferred") return owner;
  const row = board.address(owner);
  return row?.phase === "online" && !row.draining && preferUntil(board, task) > board.now ? owner : null;
}

/** An operator's word does not hold up a task that the worker cannot run, or can no longer run. */
function canServe(asking: Asking, worker: WorkerId): boolean {
  const row = asking.board.address(worker);
  if (row === null || !isThere(asking, worker)) return false;
  return fits(needsOf(asking.run.tenant, asking.node), { tenant: row.tenant, about: announcedBy(row) }) === null;
}

/** A worker that is away may come back while its lease lasts. */
function isThere({ board, lost }: Asking, worker: WorkerId): boolean {
  const phase = worker === lost ? "lost" : board.address(worker)?.phase;
  return phase === "online" || phase === "away";
}

/** The one worker that has all of them, or why there is none. */
function ownerOfAll(asking: Asking, refs: readonly WantedRef[]): WorkerId | FaultData {
  const { board, run } = asking;
  board.need(refs.map((ref) => docKey(run.tenant, "artifact", ref.resource)));
  let first: { readonly ref: WantedRef; readonly row: WorkerRow } | null = null;
  for (const ref of refs) {
    const row = ownerOfOne(asking, ref);
    if ("code" in row) return row;
    if (first !== null && first.row.id !== row.id)
      return {
        code: "E.RESOURCE.CONFLICT",
        message: `resource ${first.ref.resource} is at worker ${first.row.name} and ${ref.resource} at ${row.name}; no worker has both`,
        details: {
          resources: [
            { resource: first.ref.resource, worker: first.row.name },
            { resource: ref.resource, worker: row.name },
          ],
        },
      };
    first ??= { ref, row };
  }
  return (first as { row: WorkerRow }).row.id;
}

function ownerOfOne(asking: Asking, ref: WantedRef): WorkerRow | FaultData {
  const { board, tools, run } = asking;
  if (ref.expiresAt !== undefined && ref.expiresAt <= board.now) return missing(ref, "its time is over", "expired");
  const doc = artifactOf(board, run.tenant, ref.resource);
  const kept = doc === null ? null : readArtifact(doc);
  if (kept?.removed !== undefined) return missing(ref, removedWords(kept.workerName, kept.removed), kept.removed);
  const row = doc === null ? workerNamed(board, tools, run, ref.workerName) : board.address(readArtifact(doc).worker);
  if (row === null || row.tenant !== run.tenant)
    return ref.workerName === null || doc !== null
      ? missing(ref, "it expired, was removed or never was", "removed")
      : missing(ref, `no worker ${ref.workerName} is known`, "worker-unknown");
  if (!isThere(asking, row.id)) return missing(ref, `its worker ${row.name} is lost`, "worker-lost");
  return row;
}

const removedWords = (worker: string, reason: string): string =>
  ({
    evicted: `worker ${worker} had to make room`,
    expired: `its time at worker ${worker} is over`,
    released: `worker ${worker} let it go`,
    lost: `worker ${worker} came back without it`,
  })[reason] ?? `worker ${worker} no longer has it`;

/** A resource that was never reported is looked for at the worker its user names, by the name it has here or by its instance id. */
function workerNamed(board: Board, tools: Tools, run: RunRow, name: string | null): WorkerRow | null {
  if (name === null) return null;
  for (const seat of tools.floor.seats.values())
    if (seat.tenant === run.tenant && seat.name === name) return board.address(seat.worker);
  return board.address(`${run.tenant}/${name}`);
}

function missing(ref: WantedRef, why: string, reason: string): FaultData {
  return {
    code: "E.RESOURCE.MISSING",
    message: `resource ${ref.resource} is gone: ${why}; run the node that makes it again`,
    details: { resource: ref.resource, reason, ...(ref.workerName === null ? {} : { worker: ref.workerName }) },
  };
}

/** What the grant to this seat adds to the row: the version it runs with, the resources it uses, the key it acquires. */
export function withGrant(board: Board, run: RunRow, node: PlanNode, task: TaskRow, seat: Seat): TaskRow {
  const refs = refsOf(node, task.params);
  const { affinity } = node.policy;
  if (node.minVersion === null && affinity === undefined && refs.length === 0) return task;
  const version = versionAt(node, seat.about);
  const change: { -readonly [K in keyof TaskState]?: TaskState[K] | undefined } = {};
  if (version !== node.packageVersion || stateOf(task).version !== undefined)
    change.version = version === node.packageVersion ? undefined : version;
  if (refs.length > 0) change.refs = refs.map((ref) => usedRef(board, run, ref, seat));
  if (affinity !== undefined)
    change.affinity = { key: affinity.key, mode: affinity.mode ?? "sticky", until: useKey(board, run, affinity, seat) };
  return withState(task, change as Parameters<typeof withState>[1]);
}

function usedRef(board: Board, run: RunRow, ref: WantedRef, seat: Seat): ResourceRef {
  const doc: DocRow | null = artifactOf(board, run.tenant, ref.resource);
  const known = doc === null ? null : readArtifact(doc);
  const expiresAt = (doc === null ? ref.expiresAt : touchArtifact(board, doc)) ?? null;
  return {
    resource: ref.resource,
    workerName: seat.name,
    type: ref.type || known?.type || "resource",
    ...(ref.scope === undefined ? {} : { scope: ref.scope }),
    ...(expiresAt === null ? {} : { expiresAt }),
    ...(ref.metadata === undefined ? {} : { metadata: ref.metadata }),
  };
}

/** Until when the key is this worker's; null where it stays another's, because this one was only preferred less. */
function useKey(board: Board, run: RunRow, affinity: NonNullable<PlanNode["policy"]["affinity"]>, seat: Seat): Millis | null {
  const owner = ownerOf(board, run.tenant, affinity.key);
  if (owner !== null && owner !== seat.worker) return null;
  return keepAffinity(board, run, affinity, seat.worker);
}
