// Turns that have been decided and whose commits are under way. What they decided about is left alone by the turns that follow until
// they have landed: commands on the same roots wait, and so do commands about a worker they concern. They land in the order they took
// off, so the floor moves and the doors hear as if there had been one turn at a time.

import type { Board } from "../core/board/board.ts";
import { type Air, clearAir, type FloorMove, type Hold } from "../core/crew/floor.ts";
import { rowsFor } from "../core/decide.ts";
import type { Committed, Tx, Unit } from "../port.ts";
import { type Key, rootOf, type WorkerId } from "../rows.ts";
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

  takeOff(flight: Flight): void {
    this.#flights.push(flight);
    this.#concern = null;
  }

  land(): void {
    this.#flights.shift();
    this.#concern = null;
  }

  /** What the floor must know of these turns; `waiting`: workers whose own commands wait for them to land. */
  air(waiting: ReadonlySet<WorkerId>): Air {
    if (this.#flights.length === 0) return clearAir;
    const { unsure, touched, holds } = this.#concerned();
    return { unsure: waiting.size === 0 ? unsure : new Set([...unsure, ...waiting]), touched, holds };
  }

  /** Decides command by command, in their order, which may go now. */
  gate(): Gate {
    return new Gate(this.#concerned());
  }

  commands(): Waiting[] {
    return this.#flights.flatMap(({ decision, later }) => [...decision.taken, ...later]);
  }

  #concerned(): Concern {
    this.#concern ??= concernOf(this.#flights);
    return this.#concern;
  }
}

/** What the turns in the air decided about. */
interface Concern extends Air {
  readonly roots: ReadonlySet<Key>;
}

function concernOf(flights: readonly Flight[]): Concern {
  const roots = new Set<Key>();
  const unsure = new Set<WorkerId>();
  const touched = new Set<WorkerId>();
  const holds = new Map<WorkerId, Hold[]>();
  for (const { decision, board, later, units } of flights) {
    for (const items of [decision.taken, later]) for (const item of items) for (const root of rootsOf(item)) roots.add(root);
    for (const unit of units) for (const root of unit.roots) roots.add(root);
    for (const move of board.moves) {
      const worker = workerOf(move);
      if (worker === null) continue;
      touched.add(worker);
      if (move.move === "hold") {
        const list = holds.get(worker);
        if (list === undefined) holds.set(worker, [move.hold]);
        else list.push(move.hold);
      } else if (!isHarmless(move)) unsure.add(worker);
    }
  }
  return { roots, unsure, touched, holds };
}

/** Moves that leave the seat as ready for work as it was. */
function isHarmless(one: FloorMove): boolean {
  const { move } = one;
  // One that goes on after its wait takes its slot back; one that begins to wait frees it.
  if (one.move === "wait") return one.isWaiting;
  return move === "drop" || move === "ack" || move === "trust" || move === "recheck" || move === "full";
}

function workerOf(move: FloorMove): WorkerId | null {
  return move.move === "sit" ? move.seat.worker : "worker" in move ? move.worker : null;
}

/** Roots a command is about, as far as is known before it is decided. Workflows never change: all runs of one must not wait for each other. */
function rootsOf(item: Waiting): Key[] {
  return rowsFor(item.command, item.run)
    .filter((key) => !key.startsWith("workflow/"))
    .map(rootOf);
}

/** A command about the worker itself: a join, a beat, a drain. Its rows and its seat must be what the floor says. */
function isAboutWorker({ command }: Waiting): boolean {
  return command.type.startsWith("worker.");
}

export class Gate {
  readonly #concern: Concern;
  /** What commands that were held back are about: nothing overtakes them there. */
  readonly #held = new Set<Key>();
  /** Workers whose own commands were held back: they get no grants until those have gone, or the commands might wait for ever. */
  readonly waiting = new Set<WorkerId>();

  constructor(concern: Concern) {
    this.#concern = concern;
  }

  admits(item: Waiting): boolean {
    const roots = rootsOf(item);
    const worker = "worker" in item.command ? item.command.worker : null;
    const isClear =
      !roots.some((root) => this.#concern.roots.has(root) || this.#held.has(root)) &&
      (worker === null || (!this.waiting.has(worker) && !(isAboutWorker(item) && this.#concern.touched.has(worker))));
    if (isClear) return true;
    for (const root of roots) this.#held.add(root);
    if (worker !== null && isAboutWorker(item)) this.waiting.add(worker);
    return false;
  }
}
