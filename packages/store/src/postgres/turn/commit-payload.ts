// A turn's change sets as one call of the function that writes turns. Those that cannot be written are named, mostly before anything is sent.

import type { ChangeSet, Position, Row, RowKey, TaskRow, Tenant } from "@astraflow/engine";
import { keyOf, rootOf, runSearchTerms, splitKey } from "@astraflow/engine";
import { type InvalidChangeSet, invalidChangeSet } from "../../common/change-set-check.ts";
import { FairnessClocks } from "../../common/fairness-ranks.ts";
import { packFacts } from "../../common/log-rows.ts";
import { indexedWordsOf } from "../../common/page-filters.ts";
import { changedColumnsMask, type RowKind } from "../../common/row-shape.ts";
import { IllFormedText, NumberArrayWriter, TextArrayWriter } from "../sql/binary-arrays.ts";
import { allColumnsMask, columnProblem, columnsOf, unstorableTextProblem } from "../sql/columns.ts";
import { type CommitArguments, orderCommitArguments } from "../sql/commit-function.ts";
import {
  type CommitSection,
  chunkSection,
  dropSections,
  eventSection,
  mailSection,
  type RowSection,
  readySection,
  rowSections,
  sections,
} from "../sql/commit-sections.ts";
import { formatTextArray, isStorable } from "../sql/literals.ts";
import type { PostgresTurn, ReplicaEpoch } from "./turn.ts";

/** `number`: of the turn. `mailTaken`: mail that it has read. */
export function buildCommitPayload(
  units: readonly ChangeSet[],
  turn: PostgresTurn,
  number: number,
  { replica, epoch }: ReplicaEpoch,
  mailTaken: readonly number[],
): ReturnType<CommitPayloadBuilder["build"]> | InvalidChangeSet {
  const builder = new CommitPayloadBuilder(turn);
  for (const [index, unit] of units.entries()) {
    const problem = builder.addChangeSet(unit);
    if (problem !== null) return invalidChangeSet(index, problem);
  }
  const orphanRoot = builder.findOrphanRoot();
  if (orphanRoot !== null) {
    const index = units.findIndex((unit) => unit.puts.some((row) => rootOf(keyOf(row)) === orphanRoot));
    return invalidChangeSet(index, `it writes under ${orphanRoot}, which does not exist`);
  }
  try {
    return builder.build({ replica, epoch, lane: turn.pooled.number, turn: number, now: turn.now }, mailTaken);
  } catch (error) {
    const bad = error instanceof IllFormedText ? findUnstorableText(units) : null;
    if (bad === null) throw error;
    return bad;
  }
}

/** A cell is taken from a row by its column's name. */
type CellsByColumn = Readonly<Record<string, unknown>>;

class CommitPayloadBuilder {
  readonly #turn: PostgresTurn;
  readonly #rowsBySection: CellsByColumn[][] = sections.map(() => []);
  /** Of the queues that tasks leave: the server knows how far they are already. */
  readonly #clocks = new FairnessClocks({ tenantClock: () => 0, taskQueueClock: () => 0 });
  readonly #taskQueues = new Map<string, number>();
  readonly #factCounts = new Map<Tenant, number>();
  readonly #reliedWorkers = new Map<string, number>();
  readonly #unlockedRoots = new Set<RowKey>();
  readonly #createdKeys = new Set<RowKey>();
  /** Places in the order of entering lines, of rows in sections that have a column for them. */
  readonly #entryOrder = new Map<CellsByColumn, number>();
  #updateCount = 0;

  constructor(turn: PostgresTurn) {
    this.#turn = turn;
  }

  /** Why the unit cannot be written, or null. */
  addChangeSet(unit: ChangeSet): string | null {
    const ready = this.#rowsOf(readySection);
    const places = unit.enqueued.length === 0 ? null : new Map(unit.enqueued.map((one, at) => [one.task, ready.length + at + 1]));
    const lines = new Map<string, string>();
    for (const row of unit.puts) {
      const key = keyOf(row);
      const isBorn = unit.inserted?.has(key) === true;
      const image = this.#turn.loadedRow(key);
      if (isBorn && image) return `${key} should be new but exists already`;
      const place = row.kind === "task" ? places?.get(row.id) : undefined;
      if (place !== undefined && row.kind === "task") lines.set(row.id, row.line ?? "");
      const problem = this.#addRow(row, key, isBorn ? null : image, place);
      if (problem !== null) return problem;
    }
    for (const key of unit.deletes) {
      const [kind, id] = splitKey(key);
      this.#rowsOf(dropSections[kind]).push({ id });
    }
    for (const { task, tenant, cost } of unit.enqueued) {
      ready.push({ tenant, line: indexOrAdd(this.#taskQueues, lines.get(task) ?? ""), cost });
      if (!this.#factCounts.has(tenant)) this.#factCounts.set(tenant, 0);
    }
    for (const { tenant, subject, facts } of unit.logEntries) {
      if (facts.length === 0) continue;
      const first = this.#factCounts.get(tenant) ?? 0;
      this.#rowsOf(eventSection).push({ tenant, first: first + 1, count: facts.length, subject, facts: packFacts(facts) });
      this.#factCounts.set(tenant, first + facts.length);
    }
    for (const { worker, epoch } of unit.workerPreconditions ?? []) {
      const other = this.#reliedWorkers.get(worker);
      // Two change sets rely on different epochs: use -1, which no worker has, so that the commit fails.
      this.#reliedWorkers.set(worker, other === undefined || other === epoch ? epoch : -1);
    }
    for (const chunk of unit.chunks ?? []) this.#rowsOf(chunkSection).push(chunk as unknown as CellsByColumn);
    for (const { replica, epoch, id, body } of unit.mail) this.#rowsOf(mailSection).push({ replica, epoch, id, body });
    return null;
  }

  #rowsOf({ offset: at }: CommitSection): CellsByColumn[] {
    return this.#rowsBySection[at / 3] as CellsByColumn[];
  }

  #addRow(row: Row, key: RowKey, image: Row | null | undefined, place: number | undefined): string | null {
    const changes = image ? changedColumnsMask(columnsOf(row.kind), image, row) : allColumnsMask;
    if (changes === 0 && place === undefined) return null;
    const problem = columnProblem(row, changes);
    if (problem !== null) return problem;
    if (row.kind === "task" && image) this.#clocks.noteTaskLeft(image as TaskRow, row);
    const section = smallestSection(row.kind, image, changes, place !== undefined);
    if (section.mode === "u") this.#updateCount++;
    if (this.#turn.unlockedRoots.size > 0) {
      const root = rootOf(key);
      if (this.#turn.unlockedRoots.has(root)) this.#unlockedRoots.add(root);
      if (section.mode === "i") this.#createdKeys.add(key);
    }
    const cells = withSearchWords(row, section);
    if (place !== undefined) this.#entryOrder.set(cells, place);
    this.#rowsOf(section).push(cells);
    return null;
  }

  /** A loose root that is written under without being made: nothing would tell that another turn does the same. */
  findOrphanRoot(): RowKey | null {
    for (const root of this.#unlockedRoots) if (!this.#createdKeys.has(root)) return root;
    return null;
  }

  /** `values`: what the function that writes turns is called with. */
  build(identity: Pick<CommitArguments, "replica" | "epoch" | "lane" | "turn" | "now">, mailTaken: readonly number[]) {
    const tenants = [...this.#factCounts.keys()].sort();
    const tenantPlaces = new Map(tenants.map((tenant, at) => [tenant, at + 1]));
    const facts = tenants.map((tenant) => this.#factCounts.get(tenant) ?? 0);
    const lines = [...this.#taskQueues.keys()];
    const values = orderCommitArguments({
      ...identity,
      ...this.#encodeSections(tenantPlaces),
      updates: this.#updateCount,
      rely_worker: textsOrNull([...this.#reliedWorkers.keys()]),
      rely_epoch: numbersOrNull([...this.#reliedWorkers.values()]),
      left_line: textsOrNull([...this.#clocks.lines.keys()]),
      left_rank: numbersOrNull([...this.#clocks.lines.values()]),
      lines: textsOrNull(lines),
      tenants: textsOrNull(tenants),
      facts: numbersOrNull(facts),
      mail_taken: numbersOrNull(mailTaken),
    });
    return { values, tenants, facts, lines, hasMail: this.#rowsOf(mailSection).length > 0 };
  }

  #encodeSections(tenants: ReadonlyMap<Tenant, number>): Pick<CommitArguments, "texts" | "numbers" | "sections"> {
    const rowCount = this.#rowsBySection.reduce((sum, rows) => sum + rows.length, 0);
    const texts = new TextArrayWriter(rowCount * textBytesPerRow);
    const numbers = new NumberArrayWriter(rowCount * numberBytesPerRow);
    const starts = Array.from({ length: 3 * sections.length }, () => 0);
    for (const section of sections) {
      const rows = this.#rowsOf(section);
      starts[section.offset] = rows.length;
      starts[section.offset + 1] = texts.count;
      starts[section.offset + 2] = numbers.count;
      for (let at = 0; at < rows.length; at++) {
        const cells = rows[at] as CellsByColumn;
        for (let n = 0; n < section.texts.length; n++) pushText(texts, cells[section.texts[n] as string]);
        for (let n = 0; n < section.numbers.length; n++) {
          const name = section.numbers[n] as string;
          if (name === "place") pushNumber(numbers, this.#entryOrder.get(cells));
          else pushNumber(numbers, name === "tenant" ? tenants.get(cells[name] as Tenant) : cells[name]);
        }
      }
    }
    return { texts: texts.finish(), numbers: numbers.finish(), sections: `{${starts.join(",")}}` };
  }
}

/**
 * Room for rows of about this size; lists grow where it does not suffice. A large turn should not grow its lists step by step, and a
 * small one not pay for memory that it does not need.
 */
const textBytesPerRow = 320;
const numberBytesPerRow = 100;

/** Runs and documents bring the words they are found by, where those are written. */
function withSearchWords(row: Row, section: RowSection): CellsByColumn {
  if (row.kind === "run" && section.texts.includes("terms")) return { ...row, terms: runSearchTerms(row) };
  return (row.kind === "doc" ? { ...row, words: indexedWordsOf(row.terms) } : row) as unknown as CellsByColumn;
}

/** The least that writes all that has changed. */
function smallestSection(kind: RowKind, image: Row | null | undefined, changes: number, isPlaced: boolean): RowSection {
  const { insert: i, upsert: p, updates: all } = rowSections[kind];
  if (image === undefined) return p;
  if (image === null) return i;
  const whole = all[all.length - 1] as RowSection;
  return isPlaced ? whole : (all.find(({ mask }) => (changes & ~mask) === 0) ?? whole);
}

function pushText(list: TextArrayWriter, value: unknown): void {
  if (typeof value === "string") list.push(value);
  else if (Array.isArray(value)) list.push(formatTextArray(value as readonly string[]));
  else list.pushNull();
}

function pushNumber(list: NumberArrayWriter, value: unknown): void {
  if (typeof value === "number") list.push(value);
  else if (typeof value === "boolean") list.push(value ? 1 : 0);
  else list.pushNull();
}

const textsOrNull = (texts: readonly string[]) => (texts.length === 0 ? null : fillArray(new TextArrayWriter(), texts));
const numbersOrNull = (numbers: readonly number[]) => (numbers.length === 0 ? null : fillArray(new NumberArrayWriter(), numbers));

function fillArray<T>(list: { push(item: T): void; finish(): Buffer }, items: readonly T[]): Buffer {
  for (const item of items) list.push(item);
  return list.finish();
}

/** The positions the turn's facts got, from what each tenant's log had before. */
export function firstPositions(
  { tenants, facts }: { readonly tenants: readonly Tenant[]; readonly facts: readonly number[] },
  base: readonly number[] | null,
): Map<Tenant, Position> {
  const first = new Map<Tenant, Position>();
  for (const [at, tenant] of tenants.entries()) if ((facts[at] ?? 0) > 0) first.set(tenant, (base?.[at] ?? 0) + 1);
  return first;
}

function indexOrAdd(places: Map<string, number>, name: string): number {
  const place = places.get(name) ?? places.size + 1;
  places.set(name, place);
  return place;
}

/** The unit with a text that the server does not store, or null. */
export function findUnstorableText(units: readonly ChangeSet[]): InvalidChangeSet | null {
  for (const [index, unit] of units.entries()) {
    const names = [
      ...unit.deletes,
      ...unit.logEntries.flatMap((one) => [one.tenant, one.subject]),
      ...unit.mail.flatMap((one) => [one.replica, one.id, one.body]),
      ...unit.enqueued.map((one) => one.tenant),
      ...(unit.chunks ?? []).flatMap((one) => [one.task, one.body]),
      ...(unit.workerPreconditions ?? []).map((one) => one.worker),
    ];
    const bad = names.find((name) => !isStorable(name));
    const problem = bad === undefined ? null : `${JSON.stringify(bad)} contains a NUL or half of a surrogate pair`;
    for (const text of [problem, ...unit.puts.map(unstorableTextProblem)])
      if (text !== null) return invalidChangeSet(index, text);
  }
  return null;
}
