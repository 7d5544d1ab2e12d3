// Which routes there are and which lines others have told of. Routes are read from the store at the start and whenever a hint names one
// that is not known here; a hint heard during a turn counts after it, because that turn may have seen the line empty.

import type { Floor } from "../core/floor.ts";
import { type Needs, routeOf } from "../core/route.ts";
import type { Reader } from "../port.ts";
import type { Line } from "../rows.ts";

export class RouteBook {
  readonly #floor: Floor;
  readonly #heard = new Set<Line>();
  #hasStranger = false;

  constructor(floor: Floor) {
    this.#floor = floor;
  }

  hear(line: Line): void {
    const target = routeOf(line);
    if (target === null) return;
    if (!this.#floor.routes.has(target.route)) this.#hasStranger = true;
    this.#heard.add(line);
    this.#floor.apply({ move: "heat", line });
  }

  /** A turn begins: what was heard before it is in its claims. */
  async open(reader: Pick<Reader, "page">): Promise<void> {
    this.#heard.clear();
    if (this.#hasStranger) await this.learn(reader);
  }

  async learn(reader: Pick<Reader, "page">): Promise<void> {
    this.#hasStranger = false;
    const routes = await reader.page({ page: "routes" });
    for (const row of routes.items) {
      if (this.#floor.routes.has(row.id)) continue;
      this.#floor.apply({ move: "route", route: row.id, needs: JSON.parse(row.needs) as Needs });
      this.#floor.apply({ move: "heat", line: `r|${row.id}` });
    }
  }

  /** The turn is over, and the floor has moved as it decided. */
  close(): void {
    for (const line of this.#heard) this.#floor.apply({ move: "heat", line });
  }
}
