// What a session's register says of the resources that its worker keeps: what results have left with the worker beyond that is told to the
// engine as lost. Finding it out takes a look at the store (lost-resources.ts), and work goes on meanwhile.

import type { LostResource } from "@astraflow/services";
import type { Session } from "./session.ts";
import type { SessionContext } from "./session-context.ts";

export class ResourceReconciler {
  readonly #session: Session;
  readonly #context: SessionContext;
  /** While it is compared: what is kept, and what results have left since, which was not there to be named. */
  #present: Set<string> | null = null;

  constructor(session: Session, context: SessionContext) {
    this.#session = session;
    this.#context = context;
  }

  /** A result names something that it leaves with the worker. */
  addPresent(resource: string): void {
    this.#present?.add(resource);
  }

  /** A register was heard. */
  reconcile(): void {
    const { findLostResources } = this.#context;
    const { tenant, worker, displayInfo: label, dialect } = this.#session.identity;
    const reported = this.#session.registration.takeReportedResources();
    if (findLostResources === null || reported === null || dialect !== "v2") return;
    const present = new Set(reported);
    this.#present = present;
    findLostResources({ tenant, worker, name: label.name, present }).then(
      (missing) => this.#context.runStep(this.#session, () => this.#reportLost(present, missing)),
      (problem: unknown) => {
        this.#session.log("warn", "session.uncompared", { why: String(problem) });
        this.#reportLost(present, []);
      },
    );
  }

  #reportLost(present: ReadonlySet<string>, missing: readonly LostResource[]): void {
    if (this.#present === present) this.#present = null;
    const lost = missing.filter(({ resource }) => !present.has(resource));
    if (this.#session.isEnded || lost.length === 0) return;
    const { tenant, worker, session } = this.#session.origin;
    this.#session.log("info", "session.resources.lost", { count: lost.length });
    for (const { resource, seenAt } of lost)
      this.#session.postCommand({ type: "resource.removed", tenant, worker, session, resource, reason: "lost", seenAt }, null);
  }
}
