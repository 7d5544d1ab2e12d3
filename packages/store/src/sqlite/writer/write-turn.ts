// Writes a turn in one transaction: ranks, rows, positions, then the replica's row. Caches are updated only after COMMIT has succeeded.

import {
  type ChangeSet,
  type DocRow,
  hasSameSearchTerms,
  keyOf,
  type Row,
  type RunId,
  splitKey,
  type TaskRow,
  type Tenant,
} from "@astraflow/engine";
import { type InvalidChangeSet, invalidChangeSet } from "../../common/change-set-check.ts";
import { assignRanks, FairnessClocks, withRank } from "../../common/fairness-ranks.ts";
import { assignPositions, type PositionedFacts, packFacts } from "../../common/log-rows.ts";
import { changedColumnsMask, chunkFields } from "../../common/row-shape.ts";
import { allColumnsMask, columnsByKind, encodeCells } from "../rows/columns.ts";
import { storedRowOf, writeLargeValues } from "../rows/task-values.ts";
import { indexDocument, unindexDocument } from "../search/document-search.ts";
import { indexPendingRuns, markRunsUnindexed } from "../search/run-search.ts";
import { indexSubjectHistory } from "../search/subject-history.ts";
import type { SqliteRepository, StoredTenant } from "./repository.ts";
import type { SqliteTurn } from "./turn.ts";

/** A change set that the tables refuse. */
export class ChangeSetRefused extends Error {
  readonly invalid: InvalidChangeSet;
  constructor(unit: number, cause: Error) {
    super(cause.message, { cause });
    this.invalid = invalidChangeSet(unit, cause.message, cause);
  }
}

const insertLogRowSql = "INSERT INTO event (tenant, first, last, at, subject, facts) VALUES (?, ?, ?, ?, ?, ?)";
const upsertTenantSql =
  "INSERT INTO tenant (id, position, clock, floor, indexed) VALUES (?, ?, ?, 0, ?) ON CONFLICT (id) DO UPDATE SET position = excluded.position, clock = excluded.clock, indexed = excluded.indexed";
const upsertTaskQueueClockSql =
  "INSERT INTO line (id, clock) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET clock = excluded.clock";
const updateReplicaSql = "UPDATE replica SET last_turn = ?, clock = ? WHERE id = ? AND epoch = ?";
const insertMailSql =
  "INSERT INTO mail (replica, epoch, id, body) VALUES (?, ?, ?, ?) ON CONFLICT (replica, epoch, id) DO NOTHING";
const insertChunkSql = `INSERT INTO chunk (${chunkFields.join(", ")}) VALUES (${chunkFields.map(() => "?").join(", ")})
  ON CONFLICT (task, fence, first) DO NOTHING`;
const deleteMailSql = "DELETE FROM mail WHERE seq = ?";

/**
 * Runs inside an open transaction; throws ChangeSetRefused for an invalid change set and any other error for a failing database. The
 * answer's `updateCaches` is called once the commit has succeeded.
 */
export function writeTurn(repository: SqliteRepository, turn: SqliteTurn, number: number, units: readonly ChangeSet[]) {
  const { connection } = repository;
  repository.internedTexts.discardUncommitted();
  const clocks = new FairnessClocks({
    tenantClock: (tenant) => repository.tenant(tenant).clock,
    taskQueueClock: (line) => repository.taskQueueClock(line),
  });
  const previousRows = loadPreviousRows(units, turn, clocks);
  const ranks = assignRanks(units, clocks);
  const nextRows: (Row | null)[] = [];
  for (const [index, unit] of units.entries()) {
    try {
      for (const row of unit.puts) {
        nextRows.push(writeRow(repository, previousRows[nextRows.length] ?? null, withRank(row, ranks)));
      }
      for (let drop = 0; drop < unit.deletes.length; drop++) {
        nextRows.push(writeRow(repository, previousRows[nextRows.length] ?? null, null));
      }
      for (const chunk of unit.chunks ?? []) connection.write(insertChunkSql, ...chunkFields.map((field) => chunk[field]));
      if (unit.mail.length > 0) repository.isMailEmpty = false;
      for (const mail of unit.mail) connection.write(insertMailSql, mail.replica, mail.epoch, mail.id, mail.body);
    } catch (error) {
      throw isChangeSetsFault(error) ? new ChangeSetRefused(index, error as Error) : error;
    }
  }
  for (const seq of turn.mailSeqs) connection.write(deleteMailSql, seq);
  for (const [line, clock] of clocks.lines) connection.write(upsertTaskQueueClockSql, line, clock);
  const placed = assignPositions(units, turn.now, (tenant) => repository.tenant(tenant).position);
  const eventStatement = connection.prepare(insertLogRowSql);
  for (const row of placed.rows)
    connection.run(eventStatement, [row.tenant, row.first, row.last, row.at, row.subject, packFacts(row.facts)]);
  const tenants = nextTenantStates(repository, placed, clocks);
  for (const [tenant, { position, clock, indexed }] of tenants)
    connection.write(upsertTenantSql, tenant, position, clock, indexed);
  const unindexedRuns = noteUnindexedRuns(repository, previousRows, nextRows);
  connection.write(updateReplicaSql, number, turn.now, turn.replica, turn.epoch);
  return {
    first: placed.first,
    updateCaches() {
      repository.internedTexts.keepCommitted();
      repository.unindexedRuns = unindexedRuns;
      for (let at = 0; at < nextRows.length; at++) repository.noteWritten(previousRows[at] ?? null, nextRows[at] ?? null);
      for (const [line, clock] of clocks.lines) repository.setTaskQueueClock(line, clock);
      for (const [tenant, state] of tenants) repository.setTenant(tenant, state);
    },
  };
}

/** Notes runs whose search terms changed, and indexes them once they are many. Returns how many are left outside the index. */
function noteUnindexedRuns(
  repository: SqliteRepository,
  previousRows: readonly (Row | null)[],
  nextRows: readonly (Row | null)[],
): number {
  const newlyUnindexed: RunId[] = [];
  for (let at = 0; at < nextRows.length; at++) {
    const after = nextRows[at];
    if (after?.kind !== "run") continue;
    const before = previousRows[at];
    if (before?.kind !== "run" || !hasSameSearchTerms(before, after)) newlyUnindexed.push(after.id);
  }
  if (newlyUnindexed.length === 0) return repository.unindexedRuns;
  const runs = repository.unindexedRuns + newlyUnindexed.length;
  markRunsUnindexed(repository.connection, newlyUnindexed);
  if (runs <= repository.limits.unindexedRunsMax) return runs;
  indexPendingRuns(repository.connection);
  return 0;
}

/** The new state of the tenants that this turn touched; log rows outside the index are indexed once they are many. */
function nextTenantStates(
  repository: SqliteRepository,
  placed: PositionedFacts,
  clocks: FairnessClocks,
): Map<Tenant, StoredTenant> {
  const rows = new Map<Tenant, number>();
  for (const { tenant } of placed.rows) rows.set(tenant, (rows.get(tenant) ?? 0) + 1);
  const after = new Map<Tenant, StoredTenant>();
  for (const tenant of new Set([...placed.heads.keys(), ...clocks.tenants.keys()])) {
    const state = repository.tenant(tenant);
    const position = placed.heads.get(tenant) ?? state.position;
    const unindexedRows = state.unindexedRows + (rows.get(tenant) ?? 0);
    const isTooLong = unindexedRows > repository.limits.unindexedLogRowsMax;
    if (isTooLong) indexSubjectHistory(repository.connection, tenant, state.indexed);
    const indexState = isTooLong ? { indexed: position, unindexedRows: 0 } : { indexed: state.indexed, unindexedRows };
    after.set(tenant, { ...state, position, clock: clocks.tenantClock(tenant), ...indexState });
  }
  return after;
}

/** The images before this turn: of each change set first the puts, then the deletes. Also advances the clocks of the queues they leave. */
function loadPreviousRows(units: readonly ChangeSet[], turn: SqliteTurn, clocks: FairnessClocks): (Row | null)[] {
  const previousRows: (Row | null)[] = [];
  for (const unit of units) {
    for (const row of unit.puts) {
      const before = unit.inserted?.has(keyOf(row)) === true ? null : turn.rowBeforeTurn(row.kind, row.id);
      if (before?.kind === "task" && before.line !== null && row.kind === "task") clocks.noteTaskLeft(before, row);
      previousRows.push(before);
    }
    for (const key of unit.deletes) {
      const before = turn.rowBeforeTurn(...splitKey(key));
      if (before?.kind === "task") clocks.noteTaskLeft(before, null);
      previousRows.push(before);
    }
  }
  return previousRows;
}

/** Returns the row as the table has it now. */
export function writeRow(repository: SqliteRepository, seenBefore: Row | null, seenAfter: Row | null): Row | null {
  const { connection, internedTexts } = repository;
  const before = seenBefore?.kind === "task" ? storedRowOf(seenBefore) : seenBefore;
  const after = seenAfter?.kind === "task" ? writeLargeValues(connection, seenBefore as TaskRow | null, seenAfter) : seenAfter;
  if (before?.kind === "doc") unindexDocument(connection, before, after as DocRow | null);
  if (after === null) {
    if (before !== null) connection.write(`DELETE FROM ${before.kind} WHERE id = ?`, before.id);
  } else if (before === null)
    connection.run(connection.prepare(columnsByKind[after.kind].insertSql), encodeCells(after, allColumnsMask, internedTexts));
  else {
    const mask = changedColumnsMask(columnsByKind[after.kind].columns, before, after);
    if (mask !== 0) {
      const cells = encodeCells(after, mask, internedTexts);
      cells.push(after.id);
      connection.run(repository.updateStatement(after.kind, mask), cells);
    }
  }
  if (after?.kind === "doc") indexDocument(connection, before as DocRow | null, after);
  return after;
}

const constraintFailed = 19;
const tooBig = 18;
const mismatch = 20;

/** A row that no table takes makes its change set invalid; a full or broken disk does not. */
function isChangeSetsFault(error: unknown): boolean {
  const { errcode } = error as { errcode?: number };
  if (errcode !== undefined) return [constraintFailed, tooBig, mismatch].includes(errcode % 256);
  return error instanceof TypeError || (error as { code?: string }).code === "ERR_INVALID_ARG_TYPE";
}
