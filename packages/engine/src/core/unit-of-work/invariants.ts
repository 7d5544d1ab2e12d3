// What must hold for every row that a turn reads or writes, checked in production. A broken rule throws before anything is stored: the command or
// timer that broke it is rolled back, tried once more alone and then quarantined, while the others of its turn commit.

import type { Row, TaskRow, Tenant } from "../../storage/rows.ts";
import { InvariantBroken } from "../rows/invariant-broken.ts";
import { findMisfit } from "../rows/row-shapes.ts";
import { runMoves } from "../rows/run.ts";
import { taskMoves } from "../rows/task.ts";
import { workerMoves } from "../rows/worker.ts";
import type { RootRef } from "./root.ts";

type PhaseTargets = Readonly<Record<string, ReadonlySet<string>>>;

const targetsIn = (moves: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>): PhaseTargets =>
  Object.fromEntries(Object.entries(moves).map(([phase, events]) => [phase, new Set(Object.values(events).flat())]));

const taskTargets = targetsIn(taskMoves);
const workerTargets = targetsIn(workerMoves);
/** A run without open tasks passes through `ending` without being written there. */
const runTargets: PhaseTargets = Object.fromEntries(
  Object.entries(targetsIn(runMoves)).map(([phase, targets]) => [
    phase,
    targets.has("ending") ? new Set([...targets, "failed", "cancelled"]) : targets,
  ]),
);

/** The fields of a loaded row fit its phase: nothing is decided about a damaged one. */
export function checkLoaded(row: Row): void {
  const misfit = findMisfit(row);
  if (misfit !== null) throw new InvariantBroken("row shape", `${row.kind} ${row.id} ${misfit}`);
}

/** `before` is the image that this turn knows, null for a row it has not read. */
export function checkWrite(before: Row | null, row: Row, checksFences: boolean): void {
  if (row.kind === "task") {
    if (row.needs < 0) throw new InvariantBroken("open count", `task ${row.id} waits for ${row.needs} others`);
    if (before?.kind !== "task") return;
    checkPhase(taskTargets, before, row);
    if (checksFences) checkFence(before, row);
  } else if (row.kind === "run") {
    if (row.open < 0) throw new InvariantBroken("open count", `run ${row.id} has ${row.open} open tasks`);
    if (before?.kind === "run") checkPhase(runTargets, before, row);
  } else if (row.kind === "worker" && before?.kind === "worker") checkPhase(workerTargets, before, row);
}

function checkPhase(targets: PhaseTargets, before: { readonly phase: string }, row: Extract<Row, { phase: string }>): void {
  if (before.phase !== row.phase && targets[before.phase]?.has(row.phase) !== true)
    throw new InvariantBroken("legal move", `${row.kind} ${row.id} cannot become ${row.phase}: it is ${before.phase}`);
}

/** A fence never falls, and rises whenever the task gets or loses its worker: only then are reports of the old holder refused. */
function checkFence(before: TaskRow, row: TaskRow): void {
  if (row.fence > before.fence || (row.fence === before.fence && row.worker === before.worker)) return;
  throw new InvariantBroken(
    "fence rises",
    `task ${row.id} goes from ${before.worker} to ${row.worker} under fence ${row.fence}`,
    {
      before: before.fence,
      after: row.fence,
    },
  );
}

/** A row is written under the root that the turn has locked for it. */
export function checkRoot(row: Row, root: RootRef): void {
  const isUnderRoot = row.kind === "task" ? row.run === root && row.id.startsWith(root) : row.kind !== "run" || row.id === root;
  if (!isUnderRoot) throw new InvariantBroken("change set has its root", `${row.kind} ${row.id} is written under ${root}`);
}

/** Everything that commits together belongs to one tenant; null where the row itself does not name it. */
export function tenantNamedBy(row: Row): Tenant | null {
  switch (row.kind) {
    case "task":
      return null;
    case "key":
    case "ask":
    case "workflow":
      return row.id.slice(0, row.id.indexOf("/"));
    default:
      return row.tenant;
  }
}
