// What a turn changes outside the store once it is stored: the fleet is updated, effects are emitted, deferred commands wait again.

import type { Fleet } from "../core/fleet/fleet.ts";
import { InvariantBroken } from "../core/rows/invariant-broken.ts";
import type { Effect } from "../interface/effect.ts";
import type { EngineSettings } from "../interface/settings.ts";
import type { World } from "../interface/world.ts";
import type { Millis, Position, Tenant } from "../storage/rows.ts";
import type { DecidedTurn } from "./pending-turns.ts";
import type { RouteRegistry } from "./route-registry.ts";

export class CommitEffects {
  readonly counters = { turns: 0, commands: 0, grants: 0, retriedTurns: 0 };
  readonly #world: World;
  readonly #fleet: Fleet;
  readonly #routes: RouteRegistry;
  readonly #idleMs: number;
  readonly #mayReorder: boolean;
  readonly #lastPositions = new Map<Tenant, { readonly first: Position; readonly last: Position }>();
  #lastFullCheck: Millis = 0;

  constructor(world: World, fleet: Fleet, routes: RouteRegistry, { idleMs, turnsInFlight }: EngineSettings) {
    this.#world = world;
    this.#fleet = fleet;
    this.#routes = routes;
    this.#idleMs = idleMs;
    this.#mayReorder = turnsInFlight > 1;
  }

  /** Whether a turn at this instant checks everything, not only what it was notified of. */
  isFullCheckDue(now: Millis): boolean {
    return now - this.#lastFullCheck >= this.#idleMs;
  }

  /** Updates the fleet. `isAlone`: no other turn is pending, so none was decided on the fleet as it was before. */
  applyToFleet({ work, decision, routeVersion }: DecidedTurn, isAlone: boolean): void {
    for (const change of work.fleetChanges) {
      this.#fleet.apply(change);
      if (change.type === "activate" && !isAlone) this.#routes.noteActivity(change.line);
    }
    this.#routes.endTurn(routeVersion);
    if (this.isFullCheckDue(work.now)) {
      this.#lastFullCheck = work.now;
      // Hints may be lost, and heads of queues may have been busy when they were claimed: check them all again.
      this.#fleet.activateServedQueues();
      this.#routes.requestReload();
    }
    this.counters.turns++;
    this.counters.commands += decision.answers.length;
  }

  /** `first` is each tenant's first position of this turn; empty where the store's answer was lost. */
  publish({ work, decision }: DecidedTurn, first: ReadonlyMap<string, number>): void {
    const effects: Effect[] = [...decision.answers, ...work.effects, ...work.resultLatencies.toMetricSamples()];
    for (const effect of work.effects) if (effect.type === "dispatch") this.counters.grants++;
    for (const [tenant, facts] of work.factCountByTenant()) {
      const from = first.get(tenant);
      if (from !== undefined && !this.#hasValidPositions(tenant, from, from + facts - 1)) return;
      effects.push({ type: "log", tenant, head: from === undefined ? null : from + facts - 1 });
    }
    if (effects.length > 0) this.#world.emit(effects);
    for (const problem of work.problems) this.#world.reportProblem(problem);
  }

  /**
   * Positions of a tenant's log are used once, in the order of commits. Several turns in flight may be stored in another order than they
   * were decided, so for those only the overlap with the last range is an error. Readers would miss facts: the process ends.
   */
  #hasValidPositions(tenant: Tenant, first: Position, last: Position): boolean {
    const known = this.#lastPositions.get(tenant);
    if (known !== undefined && first <= known.last && (!this.#mayReorder || last >= known.first)) {
      const broken = new InvariantBroken("position order", `facts of tenant ${tenant} got positions ${first} to ${last}`, {
        ...known,
      });
      this.#world.reportProblem({ code: "E.INTERNAL", message: broken.message, details: broken.details, cause: broken });
      if (this.#world.endProcess === undefined) throw broken;
      this.#world.endProcess(broken);
      return false;
    }
    this.#lastPositions.set(tenant, { first, last });
    return true;
  }
}
