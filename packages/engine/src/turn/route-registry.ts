// Which routes exist and which queues became active. A queue that becomes active during a turn counts after it: it may have been missed.

import type { Fleet } from "../core/fleet/fleet.ts";
import { parseQueueName, readRequirements } from "../core/fleet/route.ts";
import type { StoreReader } from "../storage/port.ts";
import type { QueueName } from "../storage/rows.ts";

export class RouteRegistry {
  readonly #fleet: Fleet;
  /** Queues that became active, with a number that rises every time. */
  readonly #activity = new Map<QueueName, number>();
  #version = 0;
  #hasUnknownRoute = false;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  /** Another scheduler reports that a queue has tasks. */
  handleQueueHint(queue: QueueName): void {
    const target = parseQueueName(queue);
    if (target === null) return;
    if (!this.#fleet.routes.has(target.route)) this.#hasUnknownRoute = true;
    this.noteActivity(queue);
    this.#fleet.apply({ type: "activate", line: queue });
  }

  /** Hints may be lost: now and then the routes are read again although no hint named a new one. */
  requestReload(): void {
    this.#hasUnknownRoute = this.#fleet.workers.size > 0;
  }

  /** A queue became active, by a hint or by a turn that has finished. */
  noteActivity(queue: QueueName): void {
    this.#activity.set(queue, ++this.#version);
  }

  /** A turn begins: earlier activity is part of its claims. Returns the version to pass to `endTurn`. */
  async beginTurn(reader: Pick<StoreReader, "page">, isAlone: boolean): Promise<number> {
    if (isAlone) this.#activity.clear();
    const routeVersion = this.#version;
    if (this.#hasUnknownRoute) await this.loadRoutes(reader);
    return routeVersion;
  }

  async loadRoutes(reader: Pick<StoreReader, "page">): Promise<void> {
    this.#hasUnknownRoute = false;
    const routes = await reader.page({ page: "routes" });
    for (const row of routes.items) {
      if (this.#fleet.routes.has(row.id)) continue;
      this.#fleet.apply({ type: "route", route: row.id, needs: readRequirements(row) });
      this.#fleet.apply({ type: "activate", line: `r|${row.id}` });
    }
  }

  /** The turn that began at this version is over and the fleet is updated: queues it may have found empty too early are active again. */
  endTurn(routeVersion: number): void {
    for (const [queue, version] of this.#activity)
      if (version > routeVersion) this.#fleet.apply({ type: "activate", line: queue });
  }
}
