// I1: a run that was accepted is found by every later read, whichever process dies in between: by its id, in the list, and in the log.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import type { ShownRun } from "../../checking/run-view.ts";

export class AcceptedRunsAreKept extends Checker {
  /** Accepted runs and the observation of the answer. */
  readonly #accepted = new Map<string, { readonly tenant: string; readonly n: number }>();
  /** The last run of the page that returned a cursor. */
  readonly #lastOf = new Map<string, string>();

  override onExchange(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    if (call.route === "startRun" && answer.status === 202) {
      const { runId } = answer.body as { runId: string };
      if (!this.#accepted.has(runId)) this.#accepted.set(runId, { tenant: call.tenant, n: answer.n });
    }
    if (call.route === "getRun" || call.route === "listRunEvents") this.#checkSingleRead(exchange);
    if (call.route === "listRuns") this.#checkListPage(exchange);
  }

  override onEnd(): void {
    for (const run of this.#accepted.keys()) {
      this.checkedCount++;
      if (this.projection.runs.get(run) === undefined)
        return this.fail(`run ${run} was accepted and is not in the log at the end`, run);
    }
  }

  #checkSingleRead({ call, answer }: ApiExchange): void {
    const run = call.params["runId"] ?? "";
    const known = this.#accepted.get(run);
    if (known === undefined || known.tenant !== call.tenant || known.n > call.n) return;
    this.checkedCount++;
    if (answer.status === 404) this.fail(`run ${run} was accepted and is not found by ${call.route} on ${call.scheduler}`, run);
  }

  /** A page shows every run between its cursor and the next one; it must include all runs accepted before it was requested. */
  #checkListPage({ call, answer }: ApiExchange): void {
    if (answer.status !== 200 || call.query["status"] !== undefined || call.query["clientId"] !== undefined) return;
    const { items, nextCursor } = answer.body as { items: readonly ShownRun[]; nextCursor: string | null };
    const shown = new Set(items.map((item) => item.runId));
    const last = items.at(-1)?.runId;
    if (nextCursor !== null && last !== undefined) this.#lastOf.set(nextCursor, last);
    const cursor = call.query["cursor"];
    const from = cursor === undefined ? null : this.#lastOf.get(cursor);
    if (from === undefined || (nextCursor !== null && last === undefined)) return;
    for (const [run, { tenant, n }] of this.#accepted) {
      if (tenant !== call.tenant || n > call.n || shown.has(run)) continue;
      if ((from !== null && run >= from) || (nextCursor !== null && last !== undefined && run < last)) continue;
      return this.fail(`run ${run} was accepted and is missing in the list of ${call.scheduler}`, run);
    }
    this.checkedCount++;
  }
}
