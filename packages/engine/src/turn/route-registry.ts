// Which routes there are and which lines have been told of. Routes are read from the store at the start, whenever a hint names one
// that is not known here, and now and then. A line told of while a turn is under way counts after that turn, which may have seen it empty.

import type { Fleet } from "../core/fleet/fleet.ts";
import { parseQueueName, readRequirements } from "../core/fleet/route.ts";
import type { StoreReader } from "../storage/port.ts";
import type { QueueName } from "../storage/rows.ts";

export class RouteRegistry {
  readonly #fleet: Fleet;
  /** Lines told of, and when: by a number that rises with every telling. */
  readonly #activity = new Map<QueueName, number>();
  #version = 0;
  #hasUnknownRoute = false;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  /** Another scheduler says that a line has work. */
  handleQueueHint(queue: QueueName): void {
    const target = parseQueueName(queue);
    if (target === null) return;
    if (!this.#fleet.routes.has(target.route)) this.#hasUnknownRoute = true;
    this.noteActivity(queue);
    this.#fleet.apply({ type: "activate", line: queue });
  }

  /** Hints get lost: now and then the routes are read again although nobody told of a new one. */
  requestReload(): void {
    this.#hasUnknownRoute = this.#fleet.workers.size > 0;
  }

  /** A line has been heated, by a hint or by a turn that has landed. */
  noteActivity(queue: QueueName): void {
    this.#activity.set(queue, ++this.#version);
  }

  /** A turn begins: what was told before it is in its claims. The answer is for `close`. */
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

  /** The turn that began at `mark` is over, and the floor has moved as it decided: lines it may have found empty too early are hot again. */
  endTurn(routeVersion: number): void {
    for (const [queue, version] of this.#activity)
      if (version > routeVersion) this.#fleet.apply({ type: "activate", line: queue });
  }
}
