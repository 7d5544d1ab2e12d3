// I42, the log itself: the positions of a tenant's log have no gaps, every reader on every scheduler sees the same fact at a position, and no fact
// ever appears at or below a cursor that a reader has passed. The facts of a single run are the same as in the whole log.

import { type ApiExchange, Checker } from "../../checking/checker.ts";
import { getOrCreate } from "../../kernel/get-or-create.ts";
import type { TenantLogPage } from "../../observation/observation.ts";

/** Reads that are true at an earlier position: a moment where it was asked for, the catalogue as it was looked at within the last second. */
const routesOfEarlierPositions = new Set(["readMoment", "listPackages"]);

export class LogHasNoGaps extends Checker {
  /** What stands at a position, by tenant: the subject, the type and the data as text. */
  readonly #seen = new Map<string, Map<number, string>>();
  /** How far the tenant's log is known to reach, and the observation at which that was answered. */
  readonly #heads: { readonly tenant: string; readonly head: number; readonly n: number }[] = [];

  override onExchange(exchange: ApiExchange): void {
    if (exchange.answer.status !== 200) return;
    if (exchange.call.route === "tailLog") this.#checkTail(exchange);
    if (exchange.call.route === "listRunEvents") this.#checkRunFacts(exchange);
    const { asOf } = exchange.answer.body as { asOf?: number };
    if (asOf !== undefined && !routesOfEarlierPositions.has(exchange.call.route))
      this.#checkHead(exchange, asOf, `by ${exchange.call.route} on ${exchange.call.scheduler}`);
  }

  #factsOf(tenant: string): Map<number, string> {
    return getOrCreate(this.#seen, tenant, () => new Map<number, string>());
  }

  #compareWithLog(tenant: string, position: number, text: string, where: string): boolean {
    const before = getOrCreate(this.#factsOf(tenant), position, () => text);
    this.checkedCount++;
    if (before === text) return true;
    this.fail(`position ${position} of ${tenant} was ${before} and is ${text}, ${where}`, tenant);
    return false;
  }

  #checkHead({ call, answer }: ApiExchange, head: number, where: string): void {
    // Heads known before this was asked for: what was there then is there now.
    const older = this.#heads.find((one) => one.tenant === call.tenant && one.n < call.n && one.head > head);
    if (older !== undefined)
      return this.fail(`the log of ${call.tenant} reached ${older.head} and reaches ${head} now, ${where}`, call.tenant);
    const last = this.#heads.findLast((one) => one.tenant === call.tenant);
    if (last === undefined || head > last.head) this.#heads.push({ tenant: call.tenant, head, n: answer.n });
  }

  #checkTail(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    const page = answer.body as TenantLogPage;
    const after = Number(call.query["after"]);
    const where = `read after ${after} on ${call.scheduler}`;
    if (after < page.floor) return;
    for (const [at, { position, subject, type, data }] of page.items.entries()) {
      if (position !== after + at + 1)
        return this.fail(`position ${after + at + 1} of ${call.tenant} is missing, ${where}`, call.tenant);
      if (!this.#compareWithLog(call.tenant, position, `${subject} ${type} ${JSON.stringify(data)}`, where)) return;
    }
    if (page.next !== after + page.items.length)
      return this.fail(`the cursor goes on at ${page.next} of ${call.tenant}, ${where}`, call.tenant);
    if (page.items.length === 0 && page.head > after)
      return this.fail(`nothing is shown although the log of ${call.tenant} reaches ${page.head}, ${where}`, call.tenant);
    this.#checkHead(exchange, page.head, where);
  }

  #checkRunFacts(exchange: ApiExchange): void {
    const { call, answer } = exchange;
    const { items, nextCursor } = answer.body as Pick<TenantLogPage, "items"> & { nextCursor: string };
    const run = call.params["runId"] ?? "";
    const where = `in the facts of run ${run} on ${call.scheduler}`;
    const after = Number(call.query["cursor"] ?? 0);
    const shown = new Set<number>();
    for (const { position, type, data } of items) {
      shown.add(position);
      if (position <= after) return this.fail(`position ${position} is shown after ${after}, ${where}`, run);
      if (!this.#compareWithLog(call.tenant, position, `run/${run} ${type} ${JSON.stringify(data)}`, where)) return;
    }
    for (const [position, text] of this.#factsOf(call.tenant))
      if (position > after && position <= Number(nextCursor) && text.startsWith(`run/${run} `) && !shown.has(position))
        return this.fail(`position ${position} is missing, ${where}`, run);
  }
}
