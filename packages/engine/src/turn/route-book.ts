// Which routes there are and which lines have been told of. Routes are read from the store at the start, whenever a hint names one
// that is not known here, and now and then. A line told of while a turn is under way counts after that turn, which may have seen it empty.

import type { Floor } from "../core/crew/floor.ts";
import { type Needs, routeOf } from "../core/place/route.ts";
import type { Reader } from "../port.ts";
import type { Line } from "../rows.ts";

export class RouteBook {
  readonly #floor: Floor;
  /** Lines told of, and when: by a number that rises with every telling. */
  readonly #told = new Map<Line, number>();
  #tellings = 0;
  #hasStranger = false;

  constructor(floor: Floor) {
    this.#floor = floor;
  }

  /** Another scheduler says that a line has work. */
  hear(line: Line): void {
    const target = routeOf(line);
    if (target === null) return;
    if (!this.#floor.routes.has(target.route)) this.#hasStranger = true;
    this.told(line);
    this.#floor.apply({ move: "heat", line });
  }

  /** Hints get lost: now and then the routes are read again although nobody told of a new one. */
  doubt(): void {
    this.#hasStranger = this.#floor.seats.size > 0;
  }

  /** A line has been heated, by a hint or by a turn that has landed. */
  told(line: Line): void {
    this.#told.set(line, ++this.#tellings);
  }

  /** A turn begins: what was told before it is in its claims. The answer is for `close`. */
  async open(reader: Pick<Reader, "page">, isAlone: boolean): Promise<number> {
    if (isAlone) this.#told.clear();
    const mark = this.#tellings;
    if (this.#hasStranger) await this.learn(reader);
    return mark;
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

  /** The turn that began at `mark` is over, and the floor has moved as it decided: lines it may have found empty too early are hot again. */
  close(mark: number): void {
    for (const [line, telling] of this.#told) if (telling > mark) this.#floor.apply({ move: "heat", line });
  }
}
