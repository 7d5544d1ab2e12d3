// What a session's register says of the resources that its worker keeps: what results have left with the worker beyond that is told to the
// engine as lost. Finding it out takes a look at the store (kept-resources.ts), and work goes on meanwhile.

import type { LostResource } from "./kept-resources.ts";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

export class KeptEar {
  readonly #session: Session;
  readonly #around: Surroundings;
  /** While it is compared: what is kept, and what results have left since, which was not there to be named. */
  #kept: Set<string> | null = null;

  constructor(session: Session, around: Surroundings) {
    this.#session = session;
    this.#around = around;
  }

  /** A result names something that it leaves with the worker. */
  left(resource: string): void {
    this.#kept?.add(resource);
  }

  /** A register was heard. */
  compare(): void {
    const { compareKept } = this.#around;
    const { tenant, worker, label, dialect } = this.#session.bound;
    const named = this.#session.introduction.takeKept();
    if (compareKept === null || named === null || dialect !== "v2") return;
    const kept = new Set(named);
    this.#kept = kept;
    compareKept({ tenant, worker, name: label.name, kept }).then(
      (gone) => this.#around.step(this.#session, () => this.#compared(kept, gone)),
      (problem: unknown) => {
        this.#session.log("warn", "session.uncompared", { why: String(problem) });
        this.#compared(kept, []);
      },
    );
  }

  #compared(kept: ReadonlySet<string>, gone: readonly LostResource[]): void {
    if (this.#kept === kept) this.#kept = null;
    const lost = gone.filter(({ resource }) => !kept.has(resource));
    if (this.#session.isEnded || lost.length === 0) return;
    const { tenant, worker, session } = this.#session.speaker;
    this.#session.log("info", "session.resources.lost", { count: lost.length });
    for (const { resource, seenAt } of lost)
      this.#session.post({ type: "resource.removed", tenant, worker, session, resource, reason: "lost", seenAt }, null);
  }
}
