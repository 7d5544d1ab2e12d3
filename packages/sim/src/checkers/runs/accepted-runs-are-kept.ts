// I1: a run that was accepted is there at every later look, whatever dies in between: by its id, in the list, and in the log.

import { type ApiExchange, Checker } from "../../checking/checker.ts";

interface RunListPage {
  readonly items: readonly { readonly runId: string }[];
  readonly nextCursor: string | null;
}

export class AcceptedRunsAreKept extends Checker {
  /** Accepted runs and the observation at which their caller knew. */
  readonly #accepted = new Map<string, { readonly tenant: string; readonly n: number }>();
  /** The last run of the page that a cursor came with: a cursor says nothing itself. */
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
      if (this.projection.run(run) === undefined)
        return this.reportViolation(`run ${run} was accepted and the log does not know it at the end`, [run]);
    }
  }

  #checkSingleRead({ call, answer }: ApiExchange): void {
    const run = call.params["runId"] ?? "";
    const known = this.#accepted.get(run);
    if (known === undefined || known.tenant !== call.tenant || known.n > call.n) return;
    this.checkedCount++;
    if (answer.status === 404)
      this.reportViolation(`run ${run} was accepted and is not found by ${call.route} on ${call.scheduler}`, [run]);
  }

  /** A page shows every run between its cursor and the next one; those accepted before it was asked for must be among them. */
  #checkListPage({ call, answer }: ApiExchange): void {
    if (answer.status !== 200 || call.query["status"] !== undefined || call.query["clientId"] !== undefined) return;
    const { items, nextCursor } = answer.body as RunListPage;
    const shown = new Set(items.map((item) => item.runId));
    const last = items.at(-1)?.runId;
    if (nextCursor !== null && last !== undefined) this.#lastOf.set(nextCursor, last);
    const cursor = call.query["cursor"];
    const from = cursor === undefined ? null : this.#lastOf.get(cursor);
    if (from === undefined || (nextCursor !== null && last === undefined)) return;
    for (const [run, { tenant, n }] of this.#accepted) {
      if (tenant !== call.tenant || n > call.n || shown.has(run)) continue;
      if ((from !== null && run >= from) || (nextCursor !== null && last !== undefined && run < last)) continue;
      return this.reportViolation(`run ${run} was accepted and is missing in the list of ${call.scheduler}`, [run]);
    }
    this.checkedCount++;
  }
}
