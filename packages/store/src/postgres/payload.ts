// A turn's units as one call of the function that writes turns: which rows are new, changed or either, which lines are left and
// entered, whose log grows. Units that cannot be written are named here, mostly before anything is sent. How cells travel is in
// sections.ts.

import type { ChangeSet, Millis, Position, Row, RowKey, TaskRow, Tenant } from "@astraflow/engine";
import { keyOf, rootOf, runSearchTerms, splitKey } from "@astraflow/engine";
import { packFacts } from "../log.ts";
import { docWords } from "../paging.ts";
import { type BadUnit, leavesLine, refuse } from "../unit-check.ts";
import { changesOf, columnProblem, everyColumn, isStorable, type Kind, textProblem } from "./columns.ts";
import { commitValues } from "./commit-sql.ts";
import { arrayText } from "./literal.ts";
import { BrokenText, NumberList, packNumbers, packTexts, TextList } from "./packing.ts";
import {
  chunkSection,
  dropSections,
  eventSection,
  mailSection,
  type RowSection,
  readySection,
  rowSections,
  type Section,
  sections,
} from "./sections.ts";

/** What the turn knows of the rows it writes. */
export interface Knowledge {
  /** The image before this turn; undefined when it was not loaded. */
  imageOf(key: RowKey): Row | null | undefined;
  /** A root that did not exist and could not be locked: somebody else may make it at this moment. */
  isLoose(root: RowKey): boolean;
  /** Whether there is any such root. */
  readonly hasLoose: boolean;
}

export interface Signature {
  readonly replica: string;
  readonly epoch: number;
  readonly lane: number;
  readonly turn: number;
  readonly now: Millis;
}

export interface Payload {
  /** What the function that writes turns is called with. */
  readonly values: (string | number | Buffer | null)[];
  readonly tenants: readonly Tenant[];
  readonly facts: readonly number[];
  readonly lines: readonly string[];
  readonly hasMail: boolean;
}

export function payloadOf(
  units: readonly ChangeSet[],
  known: Knowledge,
  signature: Signature,
  mailTaken: readonly number[],
): Payload | BadUnit {
  const sheet = new Sheet(known);
  for (const [index, unit] of units.entries()) {
    const problem = sheet.add(unit);
    if (problem !== null) return { unit: index, fault: refuse(index, problem) };
  }
  const orphan = sheet.orphan();
  if (orphan !== null) {
    const index = units.findIndex((unit) => unit.puts.some((row) => rootOf(keyOf(row)) === orphan));
    return {
      unit: index,
      fault: refuse(index, `it writes under ${orphan}, which does not exist`),
    };
  }
  try {
    return sheet.finish(signature, mailTaken);
  } catch (error) {
    const bad = error instanceof BrokenText ? badText(units) : null;
    if (bad === null) throw error;
    return bad;
  }
}

/** A cell is taken from a row by its column's name. */
type Cells = Readonly<Record<string, unknown>>;

class Sheet {
  readonly #known: Knowledge;
  readonly #rows: Cells[][] = sections.map(() => []);
  readonly #left = new Map<string, number>();
  readonly #lines = new Map<string, number>();
  readonly #facts = new Map<Tenant, number>();
  readonly #relied = new Map<string, number>();
  readonly #loose = new Set<RowKey>();
  readonly #made = new Set<RowKey>();
  /** Places in the order of entering lines, of rows in sections that have a column for them. */
  readonly #places = new Map<Cells, number>();
  #updates = 0;

  constructor(known: Knowledge) {
    this.#known = known;
  }

  /** Why the unit cannot be written, or null. */
  add(unit: ChangeSet): string | null {
    const ready = this.#cells(readySection);
    const places = unit.enqueued.length === 0 ? null : new Map(unit.enqueued.map((one, at) => [one.task, ready.length + at + 1]));
    const lines = new Map<string, string>();
    for (const row of unit.puts) {
      const key = keyOf(row);
      const isBorn = unit.inserted?.has(key) === true;
      const image = this.#known.imageOf(key);
      if (isBorn && image) return `${key} was to be new and exists`;
      const place = row.kind === "task" ? places?.get(row.id) : undefined;
      if (place !== undefined && row.kind === "task") lines.set(row.id, row.line ?? "");
      const problem = this.#put(row, key, isBorn ? null : image, place);
      if (problem !== null) return problem;
    }
    for (const key of unit.deletes) {
      const [kind, id] = splitKey(key);
      this.#cells(dropSections[kind]).push({ id });
    }
    for (const { task, tenant, cost } of unit.enqueued) {
      ready.push({ tenant, line: indexOf(this.#lines, lines.get(task) ?? ""), cost });
      if (!this.#facts.has(tenant)) this.#facts.set(tenant, 0);
    }
    for (const { tenant, subject, facts } of unit.logEntries) {
      if (facts.length === 0) continue;
      const first = this.#facts.get(tenant) ?? 0;
      this.#cells(eventSection).push({ tenant, first: first + 1, count: facts.length, subject, facts: packFacts(facts) });
      this.#facts.set(tenant, first + facts.length);
    }
    for (const { worker, epoch } of unit.workerPreconditions ?? []) {
      const other = this.#relied.get(worker);
      // Of two different epochs at most one is right: no worker is in such a one.
      this.#relied.set(worker, other === undefined || other === epoch ? epoch : -1);
    }
    for (const chunk of unit.chunks ?? []) this.#cells(chunkSection).push(chunk as unknown as Cells);
    for (const { replica, epoch, id, body } of unit.mail) this.#cells(mailSection).push({ replica, epoch, id, body });
    return null;
  }

  #cells({ at }: Section): Cells[] {
    return this.#rows[at / 3] as Cells[];
  }

  #put(row: Row, key: RowKey, image: Row | null | undefined, place: number | undefined): string | null {
    const changes = image ? changesOf(image, row) : everyColumn;
    if (changes === 0 && place === undefined) return null;
    const problem = columnProblem(row, changes);
    if (problem !== null) return problem;
    if (row.kind === "task" && image) this.#leave(image as TaskRow, row);
    const section = sectionFor(row.kind, image, changes, place !== undefined);
    if (section.mode === "u") this.#updates++;
    if (this.#known.hasLoose) {
      const root = rootOf(key);
      if (this.#known.isLoose(root)) this.#loose.add(root);
      if (section.mode === "i") this.#made.add(key);
    }
    const cells = cellsOf(row, section);
    if (place !== undefined) this.#places.set(cells, place);
    this.#cells(section).push(cells);
    return null;
  }

  #leave(before: TaskRow, after: TaskRow): void {
    if (before.line === null || before.rank === null || !leavesLine(before, after)) return;
    if (before.rank > (this.#left.get(before.line) ?? 0)) this.#left.set(before.line, before.rank);
  }

  /** A loose root that is written under without being made: nothing would tell that another turn does the same. */
  orphan(): RowKey | null {
    for (const root of this.#loose) if (!this.#made.has(root)) return root;
    return null;
  }

  finish(signature: Signature, mailTaken: readonly number[]): Payload {
    const tenants = [...this.#facts.keys()].sort();
    const tenantPlaces = new Map(tenants.map((tenant, at) => [tenant, at + 1]));
    const facts = tenants.map((tenant) => this.#facts.get(tenant) ?? 0);
    const lines = [...this.#lines.keys()];
    const values = commitValues({
      ...signature,
      ...this.#pack(tenantPlaces),
      updates: this.#updates,
      rely_worker: textsOrNull([...this.#relied.keys()]),
      rely_epoch: numbersOrNull([...this.#relied.values()]),
      left_line: textsOrNull([...this.#left.keys()]),
      left_rank: numbersOrNull([...this.#left.values()]),
      lines: textsOrNull(lines),
      tenants: textsOrNull(tenants),
      facts: numbersOrNull(facts),
      mail_taken: numbersOrNull(mailTaken),
    });
    return { values, tenants, facts, lines, hasMail: this.#cells(mailSection).length > 0 };
  }

  #pack(tenants: ReadonlyMap<Tenant, number>): {
    texts: Buffer;
    numbers: Buffer;
    sections: string;
  } {
    const rowCount = this.#rows.reduce((sum, rows) => sum + rows.length, 0);
    const texts = new TextList(rowCount * textBytesLikely);
    const numbers = new NumberList(rowCount * numberBytesLikely);
    const starts = Array.from({ length: 3 * sections.length }, () => 0);
    for (const section of sections) {
      const rows = this.#cells(section);
      [starts[section.at], starts[section.at + 1], starts[section.at + 2]] = [rows.length, texts.count, numbers.count];
      for (let at = 0; at < rows.length; at++) {
        const cells = rows[at] as Cells;
        for (let n = 0; n < section.texts.length; n++) pushText(texts, cells[section.texts[n] as string]);
        for (let n = 0; n < section.numbers.length; n++) {
          const name = section.numbers[n] as string;
          const value = cells[name];
          pushNumber(
            numbers,
            name === "place" ? this.#places.get(cells) : name === "tenant" ? tenants.get(value as Tenant) : value,
          );
        }
      }
    }
    return {
      texts: texts.finish(),
      numbers: numbers.finish(),
      sections: `{${starts.join(",")}}`,
    };
  }
}

/**
 * Room for rows of about this size; lists grow where it does not suffice. A large turn should not grow its lists step by step, and a
 * small one not pay for memory that it does not need.
 */
const textBytesLikely = 320;
const numberBytesLikely = 100;

/** Runs and documents bring the words they are found by, where those are written. */
function cellsOf(row: Row, section: RowSection): Cells {
  if (row.kind === "run" && section.texts.includes("terms")) return { ...row, terms: runSearchTerms(row) };
  return (row.kind === "doc" ? { ...row, words: docWords(row.terms) } : row) as unknown as Cells;
}

/** The least that writes all that has changed. */
function sectionFor(kind: Kind, image: Row | null | undefined, changes: number, isPlaced: boolean): RowSection {
  const { i, p, changes: all } = rowSections[kind];
  if (image === undefined) return p;
  if (image === null) return i;
  const whole = all[all.length - 1] as RowSection;
  return isPlaced ? whole : (all.find(({ mask }) => (changes & ~mask) === 0) ?? whole);
}

function pushText(list: TextList, value: unknown): void {
  if (typeof value === "string") list.push(value);
  else if (Array.isArray(value)) list.push(arrayText(value as readonly string[]));
  else list.pushNull();
}

function pushNumber(list: NumberList, value: unknown): void {
  if (typeof value === "number") list.push(value);
  else if (typeof value === "boolean") list.push(value ? 1 : 0);
  else list.pushNull();
}

const textsOrNull = (texts: readonly string[]): Buffer | null => (texts.length === 0 ? null : packTexts(texts));
const numbersOrNull = (numbers: readonly number[]): Buffer | null => (numbers.length === 0 ? null : packNumbers(numbers));

/** The positions the turn's facts got, from what each tenant's log had before. */
export function firstPositions(payload: Payload, base: readonly number[] | null): Map<Tenant, Position> {
  const first = new Map<Tenant, Position>();
  for (const [at, tenant] of payload.tenants.entries())
    if ((payload.facts[at] ?? 0) > 0) first.set(tenant, (base?.[at] ?? 0) + 1);
  return first;
}

function indexOf(places: Map<string, number>, name: string): number {
  let place = places.get(name);
  if (place === undefined) {
    place = places.size + 1;
    places.set(name, place);
  }
  return place;
}

/** The unit with a text that the server does not store, or null. */
export function badText(units: readonly ChangeSet[]): BadUnit | null {
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
    const problem = bad === undefined ? null : `${JSON.stringify(bad)} is no text`;
    for (const text of [problem, ...unit.puts.map(textProblem)])
      if (text !== null) return { unit: index, fault: refuse(index, text) };
  }
  return null;
}
