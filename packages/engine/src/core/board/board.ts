// The working copy of one turn: its sheet of rows, and the facts, mail, effects and moves of the floor that will follow from them.
// A command that fails is undone to its mark, so one poisoned unit never takes its neighbours along. Nothing here talks to the store.

import type { Effect } from "../../effect.ts";
import type { Unit } from "../../port.ts";
import {
  type ChunkRow,
  type Fact,
  type Key,
  type Mail,
  type RunId,
  type RunRow,
  runOf,
  type TaskId,
  type Tenant,
  type WorkerId,
} from "../../rows.ts";
import type { Problem } from "../../world.ts";
import type { FloorMove } from "../crew/floor.ts";
import { Latencies } from "../crew/latencies.ts";
import { newsOf } from "../crew/news.ts";
import { type Root, spellRoot } from "./root.ts";
import { type RowMark, Sheet } from "./sheet.ts";
import { Tally } from "./tally.ts";
import { type Posted, type Printed, type Relied, type Told, unitsOf } from "./units.ts";

export interface Mark extends RowMark {
  readonly facts: number;
  readonly effects: number;
  readonly moves: number;
  readonly fresh: number;
  readonly mail: number;
  readonly relied: number;
  readonly chunks: number;
  readonly problems: number;
}

export class Board extends Sheet {
  readonly effects: Effect[] = [];
  readonly moves: FloorMove[] = [];
  readonly problems: Problem[] = [];
  /** Tasks that became ready in this turn; the placer may grant them before they ever enter the store's line. */
  readonly fresh: TaskId[] = [];
  /** Workers whose row was found to agree with their seat; all commands are decided by then, so it stays true for the turn. */
  readonly seated = new Set<WorkerId>();

  /** Nodes reached in this turn. A command undone later leaves its own behind; all it does is to end the turn's fan-outs sooner. */
  reached = 0;

  /** How long results took from their grants. */
  readonly latencies = new Latencies();
  readonly #tally = new Tally();
  readonly slots = this.#tally.slots;
  readonly changed = this.#tally.changed;
  readonly waits = this.#tally.waits;
  readonly #facts: Told[] = [];
  readonly #mail: Posted[] = [];
  readonly #relied: Relied[] = [];
  readonly #chunks: Printed[] = [];

  /** What a task printed, written with the unit of its run. */
  print(chunks: ChunkRow): void {
    this.#chunks.push({ root: runOf(chunks.task), chunks });
    this.bonds.touch(runOf(chunks.task));
  }

  /** A fact about a run. */
  tell(run: RunRow, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant: run.tenant, subject: run.id, type, data });
    this.bonds.touch(run.id);
  }

  /** A fact about anything else. */
  say(tenant: Tenant, subject: Key, type: string, data: Fact["data"]): void {
    this.#facts.push({ tenant, subject, type, data });
    this.bonds.touch(subject);
    const news = newsOf(tenant, subject, type, data);
    if (news !== null) this.effect(news);
  }

  effect(effect: Effect): void {
    this.effects.push(effect);
  }

  /** A word for a socket that another scheduler holds. It is written with the unit of `root`, so it is sent if and only if that happened. */
  post(root: Root, mail: Mail): void {
    this.#mail.push({ root, mail });
    this.bonds.touch(root);
  }

  /** The unit of `root` grants to this worker and is void if the worker is not what the floor says. */
  rely(root: Root, worker: WorkerId, epoch: number): void {
    this.#relied.push({ root, worker, epoch });
  }

  count(name: string, labels: Readonly<Record<string, string>>): void {
    this.effects.push({ type: "count", name, labels, values: [1] });
  }

  observe(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    this.effects.push({ type: "count", name, labels, values: [value] });
  }

  /** Something an operator should know though no caller hears of it; reported once the turn is on disk. */
  problem(problem: Problem): void {
    this.problems.push(problem);
  }

  move(move: FloorMove): void {
    this.moves.push(move);
    this.#tally.add(move);
  }

  /** Start of a command. */
  mark(): Mark {
    this.bonds.begin();
    return {
      rows: this.rowsChanged(),
      written: this.written.length,
      facts: this.#facts.length,
      effects: this.effects.length,
      moves: this.moves.length,
      fresh: this.fresh.length,
      mail: this.#mail.length,
      relied: this.#relied.length,
      dropped: this.dropped.length,
      chunks: this.#chunks.length,
      problems: this.problems.length,
    };
  }

  /** As if the command had never come. */
  undo(mark: Mark): void {
    this.undoRows(mark);
    this.#tally.takeBack(this.moves, mark.moves);
    this.#facts.length = mark.facts;
    this.effects.length = mark.effects;
    this.moves.length = mark.moves;
    this.fresh.length = mark.fresh;
    this.#mail.length = mark.mail;
    this.#relied.length = mark.relied;
    this.#chunks.length = mark.chunks;
    this.problems.length = mark.problems;
  }

  /** The root whose unit the present command belongs to; null when it changed nothing. */
  get touched(): Root | null {
    return this.bonds.touched;
  }

  /** Which unit of `units()` holds this root, for tracing a refused unit back to its commands. */
  unitOf(root: Root): Key {
    return spellRoot(this.bonds.find(root));
  }

  /** How many facts this turn adds to each tenant's log. */
  factsByTenant(): Map<Tenant, number> {
    const counts = new Map<Tenant, number>();
    for (const { tenant } of this.#facts) counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    return counts;
  }

  units(): { units: Unit[]; roots: Key[] } {
    return unitsOf(
      this.written,
      { facts: this.#facts, mail: this.#mail, relied: this.#relied, dropped: this.gone(), chunks: this.#chunks },
      (root) => this.bonds.find(root),
      (run) => this.#tenantOf(run),
    );
  }

  #tenantOf(run: RunId): Tenant {
    const row = this.run(run);
    if (row === null) throw new Error(`task of run ${run}, which does not exist`);
    return row.tenant;
  }
}
