// A turn's units as one call of the function that writes turns: which rows are new, changed or either, which lines are left and
// entered, whose log grows. Units that cannot be written are named here, before anything is sent.

import type { Key, Millis, Position, Row, TaskRow, Tenant, Unit } from "@astraflow/engine";
import { keyOf, rootOf, splitKey } from "@astraflow/engine";
import { packFacts } from "../log.ts";
import { type BadUnit, leavesLine, refuse } from "../unit-check.ts";
import { columnProblem, isStorable, type Kind, kinds, textProblem } from "./columns.ts";
import { type Mode, modes } from "./commit-sql.ts";
import { callText, NulInText, numberArray, quote, textArray, textValue } from "./literal.ts";
import { commitFunction } from "./migrations.ts";
import { schema } from "./schema.ts";

/** What the turn knows of the rows it writes. */
export interface Knowledge {
  /** The image before this turn; undefined when it was not loaded. */
  imageOf(key: Key): Row | null | undefined;
  /** A root that did not exist and could not be locked: somebody else may make it at this moment. */
  isLoose(root: Key): boolean;
}

export interface Signature {
  readonly replica: string;
  readonly epoch: number;
  readonly lane: number;
  readonly turn: number;
  readonly now: Millis;
}

export interface Payload {
  readonly call: string;
  readonly tenants: readonly Tenant[];
  readonly facts: readonly number[];
  readonly lines: readonly string[];
  readonly hasMail: boolean;
}

export function payloadOf(
  units: readonly Unit[],
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
    return { unit: index, fault: refuse(index, `it writes under ${orphan}, which does not exist`) };
  }
  try {
    const payload = sheet.finish(signature, mailTaken);
    // JSON spells NULs and halves of surrogate pairs as escapes, and little else: only then every text is looked at.
    return (payload.call.includes("\\u") ? badText(units) : null) ?? payload;
  } catch (error) {
    const bad = error instanceof NulInText ? badText(units) : null;
    if (bad === null) throw error;
    return bad;
  }
}

class Sheet {
  readonly #known: Knowledge;
  readonly #rows = Object.fromEntries(kinds.map((kind) => [kind, { i: [], u: [], p: [] }])) as unknown as Record<
    Kind,
    Record<Mode, string[]>
  >;
  readonly #drops = Object.fromEntries(kinds.map((kind) => [kind, []])) as unknown as Record<Kind, string[]>;
  readonly #left = new Map<string, number>();
  readonly #lines = new Map<string, number>();
  readonly #facts = new Map<Tenant, number>();
  readonly #ready: { tenant: Tenant; line: number; cost: number }[] = [];
  readonly #events: { tenant: Tenant; first: number; count: number; subject: Key; facts: string }[] = [];
  readonly #mail: string[] = [];
  readonly #relied = new Map<string, number>();
  readonly #loose = new Set<Key>();
  readonly #made = new Set<Key>();

  constructor(known: Knowledge) {
    this.#known = known;
  }

  /** Why the unit cannot be written, or null. */
  add(unit: Unit): string | null {
    const places = unit.ready.length === 0 ? null : new Map(unit.ready.map((one, at) => [one.task, this.#ready.length + at + 1]));
    const lines = new Map<string, string>();
    for (const row of unit.puts) {
      const key = keyOf(row);
      const image = this.#known.imageOf(key);
      const isBorn = unit.born?.has(key) === true;
      const problem = isBorn && image ? `${key} was to be new and exists` : columnProblem(row);
      if (problem !== null) return problem;
      const place = row.kind === "task" ? places?.get(row.id) : undefined;
      if (place !== undefined && row.kind === "task") lines.set(row.id, row.line ?? "");
      this.#put(row, key, isBorn ? null : image, place);
    }
    for (const key of unit.drops) {
      const [kind, id] = splitKey(key);
      this.#drops[kind].push(id);
    }
    for (const { task, tenant, cost } of unit.ready) {
      this.#ready.push({ tenant, line: indexOf(this.#lines, lines.get(task) ?? ""), cost });
      if (!this.#facts.has(tenant)) this.#facts.set(tenant, 0);
    }
    for (const { tenant, subject, facts } of unit.happenings) {
      if (facts.length === 0) continue;
      const first = this.#facts.get(tenant) ?? 0;
      this.#events.push({ tenant, first: first + 1, count: facts.length, subject, facts: packFacts(facts) });
      this.#facts.set(tenant, first + facts.length);
    }
    for (const { worker, epoch } of unit.relies ?? []) {
      const other = this.#relied.get(worker);
      // Of two different epochs at most one is right: no worker is in such a one.
      this.#relied.set(worker, other === undefined || other === epoch ? epoch : -1);
    }
    for (const { replica, epoch, id, body } of unit.mail)
      this.#mail.push(JSON.stringify({ r: replica, e: epoch, i: id, b: body }));
    return null;
  }

  #put(row: Row, key: Key, image: Row | null | undefined, place: number | undefined): void {
    const mode: Mode = image === undefined ? "p" : image === null ? "i" : "u";
    if (image && place === undefined && isSame(image, row)) return;
    if (row.kind === "task" && image) this.#leave(image as TaskRow, row);
    const root = rootOf(key);
    if (this.#known.isLoose(root)) this.#loose.add(root);
    if (mode === "i") this.#made.add(key);
    const text = JSON.stringify(row);
    this.#rows[row.kind][mode].push(place === undefined ? text : `${text.slice(0, -1)},"ord":${place}}`);
  }

  #leave(before: TaskRow, after: TaskRow): void {
    if (before.line === null || before.rank === null || !leavesLine(before, after)) return;
    if (before.rank > (this.#left.get(before.line) ?? 0)) this.#left.set(before.line, before.rank);
  }

  /** A loose root that is written under without being made: nothing would tell that another turn does the same. */
  orphan(): Key | null {
    for (const root of this.#loose) if (!this.#made.has(root)) return root;
    return null;
  }

  finish(signature: Signature, mailTaken: readonly number[]): Payload {
    const tenants = [...this.#facts.keys()].sort();
    const places = new Map(tenants.map((tenant, at) => [tenant, at + 1]));
    const ready = this.#ready.map(({ tenant, line, cost }, at) => ({ o: at + 1, t: places.get(tenant), l: line, c: cost }));
    const events = this.#events.map(
      ({ tenant, first, count, subject, facts }) =>
        `{"t":${places.get(tenant)},"f":${first},"n":${count},"s":${JSON.stringify(subject)},"d":${facts}}`,
    );
    const facts = tenants.map((tenant) => this.#facts.get(tenant) ?? 0);
    const lines = [...this.#lines.keys()];
    const values: Record<string, string | number | undefined> = {
      ...signature,
      replica: textValue(signature.replica),
      updates: kinds.reduce((sum, kind) => sum + this.#rows[kind].u.length, 0),
    };
    for (const kind of kinds) {
      for (const mode of modes) values[`${kind}_${mode}`] = jsonList(this.#rows[kind][mode]);
      if (this.#drops[kind].length > 0) values[`drop_${kind}`] = textArray(this.#drops[kind]);
    }
    if (this.#relied.size > 0) {
      values.rely_worker = textArray([...this.#relied.keys()]);
      values.rely_epoch = numberArray([...this.#relied.values()]);
    }
    if (this.#left.size > 0) {
      values.left_line = textArray([...this.#left.keys()]);
      values.left_rank = numberArray([...this.#left.values()]);
    }
    if (lines.length > 0) values.lines = textArray(lines);
    if (tenants.length > 0) {
      values.tenants = textArray(tenants);
      values.facts = numberArray(facts);
    }
    if (ready.length > 0) values.ready = quote(JSON.stringify(ready));
    values.events = jsonList(events);
    values.mail = jsonList(this.#mail);
    if (mailTaken.length > 0) values.mail_taken = numberArray(mailTaken);
    return { call: callText(`${schema}.${commitFunction.name}`, values), tenants, facts, lines, hasMail: this.#mail.length > 0 };
  }
}

/** The positions the turn's facts got, from what each tenant's log had before. */
export function firstPositions(payload: Payload, base: readonly number[] | null): Map<Tenant, Position> {
  const first = new Map<Tenant, Position>();
  for (const [at, tenant] of payload.tenants.entries())
    if ((payload.facts[at] ?? 0) > 0) first.set(tenant, (base?.[at] ?? 0) + 1);
  return first;
}

const jsonList = (texts: readonly string[]): string | undefined =>
  texts.length === 0 ? undefined : quote(`[${texts.join(",")}]`);

function indexOf(places: Map<string, number>, name: string): number {
  let place = places.get(name);
  if (place === undefined) {
    place = places.size + 1;
    places.set(name, place);
  }
  return place;
}

function isSame(before: Row, after: Row): boolean {
  const old = before as unknown as Record<string, unknown>;
  for (const [field, value] of Object.entries(after))
    if (old[field] !== value && !(Array.isArray(value) && JSON.stringify(old[field]) === JSON.stringify(value))) return false;
  return true;
}

function badText(units: readonly Unit[]): BadUnit | null {
  for (const [index, unit] of units.entries()) {
    const names = [
      ...unit.drops,
      ...unit.happenings.flatMap((one) => [one.tenant, one.subject]),
      ...unit.mail.flatMap((one) => [one.replica, one.id, one.body]),
      ...unit.ready.map((one) => one.tenant),
      ...(unit.relies ?? []).map((one) => one.worker),
    ];
    const bad = names.find((name) => !isStorable(name));
    const problem = bad === undefined ? null : `${JSON.stringify(bad)} is no text`;
    for (const text of [problem, ...unit.puts.map(textProblem)])
      if (text !== null) return { unit: index, fault: refuse(index, text) };
  }
  return null;
}
