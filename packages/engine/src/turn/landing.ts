// What a turn changes outside the store once it is on disk: the floor moves, the doors hear of it, what was left over waits again.

import type { Floor } from "../core/crew/floor.ts";
import type { Effect } from "../effect.ts";
import type { Millis } from "../rows.ts";
import type { World } from "../world.ts";
import type { Decided } from "./flight.ts";
import type { RouteBook } from "./route-book.ts";

export class Landing {
  readonly count = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };
  readonly #world: World;
  readonly #floor: Floor;
  readonly #routes: RouteBook;
  readonly #idleMs: number;
  #lastLook: Millis = 0;

  constructor(world: World, floor: Floor, routes: RouteBook, idleMs: number) {
    this.#world = world;
    this.#floor = floor;
    this.#routes = routes;
    this.#idleMs = idleMs;
  }

  /** Whether a turn at this instant looks at everything, and not only at what was told. */
  looksAround(now: Millis): boolean {
    return now - this.#lastLook >= this.#idleMs;
  }

  /** The floor moves. `isAlone`: no other turn is in the air, so nobody decides on the floor as it was. */
  move({ board, decision, mark }: Decided, isAlone: boolean): void {
    for (const move of board.moves) {
      this.#floor.apply(move);
      if (move.move === "heat" && !isAlone) this.#routes.told(move.line);
    }
    this.#routes.close(mark);
    if (this.looksAround(board.now)) {
      this.#lastLook = board.now;
      // Hints may be lost and heads of lines busy when they were asked for: looking again is what counts.
      this.#floor.heatServed();
      this.#routes.doubt();
    }
    this.count.turns++;
    this.count.commands += decision.answers.length;
  }

  /** `first` is each tenant's first position of this turn, where the store has said it. */
  speak({ board, decision }: Decided, first: ReadonlyMap<string, number>): void {
    const effects: Effect[] = [...decision.answers, ...board.effects, ...board.latencies.counted()];
    for (const effect of board.effects) if (effect.type === "dispatch") this.count.grants++;
    for (const [tenant, facts] of board.factsByTenant()) {
      const from = first.get(tenant);
      effects.push({ type: "log", tenant, head: from === undefined ? null : from + facts - 1 });
    }
    if (effects.length > 0) this.#world.out(effects);
    for (const problem of board.problems) this.#world.report(problem);
  }
}
