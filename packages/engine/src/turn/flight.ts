// Turns that have been decided and whose commits are under way. What they decided about is left alone by the turns that follow until
// they have landed: commands on the same roots wait, workers they moved get no grants. They land in the order they took off, so the
// floor moves and the doors hear as if there had been one turn at a time.

import type { Board } from "../core/board.ts";
import { rowsFor } from "../core/decide.ts";
import type { Committed, Tx, Unit } from "../port.ts";
import { type Key, rootOf, type WorkerId, workerKey } from "../rows.ts";
import type { Decision } from "./decision.ts";
import type { Waiting } from "./inbox.ts";

export interface Decided {
  readonly decision: Decision;
  readonly board: Board;
  /** Which tellings of lines this turn could know of. */
  readonly mark: number;
  /** Commands left for another turn. */
  readonly later: readonly Waiting[];
}

export interface Flight extends Decided {
  readonly turn: number;
  readonly tx: Tx;
  readonly units: readonly Unit[];
  /** One root of each unit, at the unit's place. */
  readonly groups: readonly Key[];
  /** What the store said; null while it has not. */
  outcome: Committed | null;
}

/**
 * Roots a command is about, as far as is known before it is decided; a worker's words are kept in their order by the worker's.
 * Workflows are left out: they never change, and all runs of one must not wait for each other.
 */
function rootsOf(item: Waiting): Key[] {
  const roots = rowsFor(item.command, item.run)
    .filter((key) => !key.startsWith("workflow/"))
    .map(rootOf);
  return "worker" in item.command ? [...roots, workerKey(item.command.worker)] : roots;
}

/** What the turns in the air decided about. */
interface Concern {
  readonly roots: ReadonlySet<Key>;
  readonly workers: ReadonlySet<WorkerId>;
}

const noConcern: Concern = { roots: new Set(), workers: new Set() };

export class Sky {
  readonly #flights: Flight[] = [];
  /** Known when somebody asked since the last change; with one turn at a time nobody does. */
  #concern: Concern | null = null;

  get size(): number {
    return this.#flights.length;
  }

  /** The first that must land. */
  get first(): Flight | undefined {
    return this.#flights[0];
  }

  /** Workers whose seats a turn under way has decided about. */
  get workers(): ReadonlySet<WorkerId> {
    return this.#concerned().workers;
  }

  takeOff(flight: Flight): void {
    this.#flights.push(flight);
    this.#concern = null;
  }

  land(): void {
    this.#flights.shift();
    this.#concern = null;
  }

  /** Whether nothing under way concerns this command. */
  isClear(item: Waiting): boolean {
    const { roots } = this.#concerned();
    return !rootsOf(item).some((root) => roots.has(root));
  }

  commands(): Waiting[] {
    return this.#flights.flatMap(({ decision, later }) => [...decision.taken, ...later]);
  }

  #concerned(): Concern {
    if (this.#flights.length === 0) return noConcern;
    if (this.#concern !== null) return this.#concern;
    const roots = new Set<Key>();
    const workers = new Set<WorkerId>();
    for (const { decision, board, later, units } of this.#flights) {
      for (const items of [decision.taken, later]) for (const item of items) for (const root of rootsOf(item)) roots.add(root);
      for (const unit of units) for (const root of unit.roots) roots.add(root);
      for (const move of board.moves) {
        const worker = move.move === "sit" ? move.seat.worker : "worker" in move ? move.worker : null;
        if (worker !== null) workers.add(worker);
      }
    }
    for (const worker of workers) roots.add(workerKey(worker));
    this.#concern = { roots, workers };
    return this.#concern;
  }
}
