// Writing a turn: all units in one transaction, ranks before rows, positions last, then the replica's row that says the turn is in.
// Nothing is remembered before COMMIT has answered; what to do when it answers badly is store.ts's business.

import {
  type ChangeSet,
  type DocRow,
  hasSameSearchTerms,
  keyOf,
  type Millis,
  type Position,
  type Row,
  type RunId,
  type Tenant,
} from "@astraflow/engine";
import { packFacts, placeFacts } from "../log.ts";
import { Clocks, enterLines } from "../rank.ts";
import { chunkFields } from "../row-shape.ts";
import { cellsOf, changedColumns, type Kind, updateCells } from "./columns.ts";
import type { Desk, TenantState } from "./desk.ts";
import { enterWords, forgetWords } from "./doc-search.ts";
import { indexTail } from "./histories.ts";
import { indexFresh, noteFresh } from "./search.ts";

export interface TurnRecord {
  readonly replica: string;
  readonly epoch: number;
  readonly turn: number;
  readonly now: Millis;
  readonly units: readonly ChangeSet[];
  readonly mailTaken: readonly number[];
  /** How many rows of a tenant's log may be outside the index of histories. */
  readonly tailRowsMax: number;
  /** How many runs may be outside the index of words. */
  readonly freshRunsMax: number;
  before(kind: Kind, id: string): Row | null;
}

/** A unit that the tables refuse. */
export class UnitRefused extends Error {
  readonly unit: number;
  constructor(unit: number, cause: unknown) {
    super(`unit ${unit} was refused: ${(cause as Error).message}`, { cause });
    this.unit = unit;
  }
}

/** What became true with the turn; `remember` tells the desk once the commit stands. */
export interface Written {
  readonly first: Map<Tenant, Position>;
  remember(): void;
}

const insertEvent = "INSERT INTO event (tenant, first, last, at, subject, facts) VALUES (?, ?, ?, ?, ?, ?)";
const putTenant =
  "INSERT INTO tenant (id, position, clock, floor, indexed) VALUES (?, ?, ?, 0, ?) ON CONFLICT (id) DO UPDATE SET position = excluded.position, clock = excluded.clock, indexed = excluded.indexed";
const putLine = "INSERT INTO line (id, clock) VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET clock = excluded.clock";
const putReplica = "UPDATE replica SET last_turn = ?, clock = ? WHERE id = ? AND epoch = ?";
const putMail = "INSERT INTO mail (replica, epoch, id, body) VALUES (?, ?, ?, ?) ON CONFLICT (replica, epoch, id) DO NOTHING";
const putChunk = `INSERT INTO chunk (${chunkFields.join(", ")}) VALUES (${chunkFields.map(() => "?").join(", ")})
  ON CONFLICT (task, fence, first) DO NOTHING`;
const dropMail = "DELETE FROM mail WHERE seq = ?";

/** Runs inside an open transaction; throws UnitRefused when a unit is to blame and anything else when the world is. */
export function writeTurn(desk: Desk, record: TurnRecord): Written {
  const { connection } = desk;
  desk.words.forget();
  const clocks = new Clocks({ tenant: (tenant) => desk.tenant(tenant).clock, line: (line) => desk.lineClock(line) });
  const befores = beforesOf(record, clocks);
  const ranks = enterLines(record.units, clocks);
  const afters: (Row | null)[] = [];
  for (const [index, unit] of record.units.entries()) {
    try {
      for (const row of unit.puts) {
        const rank = row.kind === "task" && ranks.size > 0 ? ranks.get(row.id) : undefined;
        const after = row.kind === "task" && rank !== undefined ? { ...row, rank } : row;
        writeChange(desk, befores[afters.length] ?? null, after);
        afters.push(after);
      }
      for (let drop = 0; drop < unit.deletes.length; drop++) {
        writeChange(desk, befores[afters.length] ?? null, null);
        afters.push(null);
      }
      for (const chunk of unit.chunks ?? [])
        connection.run(
          connection.prepare(putChunk),
          chunkFields.map((field) => chunk[field]),
        );
      if (unit.mail.length > 0) desk.expectMail();
      for (const mail of unit.mail) connection.run(connection.prepare(putMail), [mail.replica, mail.epoch, mail.id, mail.body]);
    } catch (error) {
      throw isUnitsFault(error) ? new UnitRefused(index, error) : error;
    }
  }
  for (const seq of record.mailTaken) connection.run(connection.prepare(dropMail), [seq]);
  for (const [line, clock] of clocks.lines) connection.run(connection.prepare(putLine), [line, clock]);
  const placed = placeFacts(record.units, record.now, (tenant) => desk.tenant(tenant).position);
  const eventStatement = connection.prepare(insertEvent);
  for (const row of placed.rows)
    connection.run(eventStatement, [row.tenant, row.first, row.last, row.at, row.subject, packFacts(row.facts)]);
  const tenants = tenantsAfter(desk, record, placed, clocks);
  for (const [tenant, { position, clock, indexed }] of tenants)
    connection.run(connection.prepare(putTenant), [tenant, position, clock, indexed]);
  const freshRuns = writeFresh(desk, record, befores, afters);
  connection.run(connection.prepare(putReplica), [record.turn, record.now, record.replica, record.epoch]);
  return {
    first: placed.first,
    remember() {
      desk.words.keep();
      desk.setFreshRuns(freshRuns);
      for (let at = 0; at < afters.length; at++) desk.noteWritten(befores[at] ?? null, afters[at] ?? null);
      for (const [line, clock] of clocks.lines) desk.setLineClock(line, clock);
      for (const [tenant, state] of tenants) desk.setTenant(tenant, state);
    },
  };
}

/** Notes runs that are found by other words now; many of them enter the index on the way. Answers how many are left outside. */
function writeFresh(desk: Desk, record: TurnRecord, befores: readonly (Row | null)[], afters: readonly (Row | null)[]): number {
  const fresh: RunId[] = [];
  for (let at = 0; at < afters.length; at++) {
    const after = afters[at];
    if (after?.kind !== "run") continue;
    const before = befores[at];
    if (before?.kind !== "run" || !hasSameSearchTerms(before, after)) fresh.push(after.id);
  }
  if (fresh.length === 0) return desk.freshRuns;
  const runs = desk.freshRuns + fresh.length;
  noteFresh(desk.connection, fresh);
  if (runs <= record.freshRunsMax) return runs;
  indexFresh(desk.connection);
  return 0;
}

/** The tenants this turn touched, as they will be; a tail of the log that has grown long enters the index on the way. */
function tenantsAfter(
  desk: Desk,
  record: TurnRecord,
  placed: ReturnType<typeof placeFacts>,
  clocks: Clocks,
): Map<Tenant, TenantState> {
  const rows = new Map<Tenant, number>();
  for (const { tenant } of placed.rows) rows.set(tenant, (rows.get(tenant) ?? 0) + 1);
  const after = new Map<Tenant, TenantState>();
  for (const tenant of new Set([...placed.heads.keys(), ...clocks.tenants.keys()])) {
    const state = desk.tenant(tenant);
    const position = placed.heads.get(tenant) ?? state.position;
    const tailRows = state.tailRows + (rows.get(tenant) ?? 0);
    const isLong = tailRows > record.tailRowsMax;
    if (isLong) indexTail(desk.connection, tenant, state.indexed);
    const tail = isLong ? { indexed: position, tailRows: 0 } : { indexed: state.indexed, tailRows };
    after.set(tenant, { ...state, position, clock: clocks.tenant(tenant), ...tail });
  }
  return after;
}

/** The images before this turn, unit by unit, puts first, then drops; the lines they leave are told on the way. */
function beforesOf(record: TurnRecord, clocks: Clocks): (Row | null)[] {
  const befores: (Row | null)[] = [];
  for (const unit of record.units) {
    for (const row of unit.puts) {
      const before = unit.inserted?.has(keyOf(row)) === true ? null : record.before(row.kind, row.id);
      if (before?.kind === "task" && before.line !== null && row.kind === "task") clocks.leave(before, row);
      befores.push(before);
    }
    for (const key of unit.deletes) {
      const slash = key.indexOf("/");
      const before = record.before(key.slice(0, slash) as Kind, key.slice(slash + 1));
      if (before?.kind === "task") clocks.leave(before, null);
      befores.push(before);
    }
  }
  return befores;
}

function writeChange(desk: Desk, before: Row | null, after: Row | null): void {
  const { connection, statements, words } = desk;
  if (before?.kind === "doc") forgetWords(connection, before, after as DocRow | null);
  if (after === null) {
    if (before !== null) connection.run(connection.prepare(`DELETE FROM ${before.kind} WHERE id = ?`), [before.id]);
  } else if (before === null) connection.run(statements.insert(after.kind), cellsOf(after, words));
  else {
    const mask = changedColumns(before, after);
    if (mask !== 0) connection.run(statements.update(after.kind, mask), updateCells(after, mask, words));
  }
  if (after?.kind === "doc") enterWords(connection, before as DocRow | null, after);
}

const constraintFailed = 19;
const tooBig = 18;
const mismatch = 20;

/** A row that no table takes is its unit's fault; a full disk or a broken one is not. */
function isUnitsFault(error: unknown): boolean {
  const { errcode } = error as { errcode?: number };
  if (errcode !== undefined) return [constraintFailed, tooBig, mismatch].includes(errcode % 256);
  return error instanceof TypeError || (error as { code?: string }).code === "ERR_INVALID_ARG_TYPE";
}
