// I53: a package that nobody brings is refused by name where the tenant's catalogue knows any; where that is allowed, or nobody has brought
// anything yet, its run waits, is given to nobody, and ends when it is cancelled.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { StartRunBody } from "../../checking/requested-runs.ts";
import type { ApiAnswerObservation, ApiCallObservation, TrueTime } from "../../observation/observation.ts";

interface StartRequest {
  readonly client: string;
  readonly isAllowed: boolean;
  /** Whether the tenant's catalogue had been seen to know a package, long enough before for every scheduler to have looked. */
  readonly isCatalogueFilled: boolean;
}

/** A scheduler looks at the catalogue anew after a second by its own clock. */
const catalogueRefreshMs = 2_000;

export function checkUnknownPackagesAreRefused({ reportViolation, projection, world }: CheckerContext): Checker {
  const asks = new Map<number, StartRequest>();
  /** When each tenant's catalogue was first seen to know something. */
  const catalogueFilledAt = new Map<string, TrueTime>();
  /** Clients by tenant: which run waits for a package that nobody brings, and whether every one of its calls was refused. */
  const waiting = new Map<string, { run: string | null; isRefused: boolean }>();
  let checkedCount = 0;

  const read = (call: ApiCallObservation, at: TrueTime): void => {
    if (call.route !== "startRun" || call.body === null) return;
    const body = JSON.parse(call.body) as StartRunBody & { readonly allowUnknown?: boolean };
    const brought = new Set(world.setup?.workers.map(({ packageName }) => packageName));
    if (body.workflow.nodes.every((node) => brought.has(node.package.name))) return;
    const { clientId: client, allowUnknown = false } = body;
    asks.set(call.call, {
      client,
      isAllowed: allowUnknown,
      isCatalogueFilled: at - (catalogueFilledAt.get(call.tenant) ?? at) > catalogueRefreshMs,
    });
    const name = `${call.tenant} ${client}`;
    if (!waiting.has(name)) waiting.set(name, { run: null, isRefused: true });
  };

  const check = (
    { client, isAllowed, isCatalogueFilled }: StartRequest,
    { status, body, tenant }: ApiAnswerObservation,
  ): void => {
    const one = waiting.get(`${tenant} ${client}`);
    const { error, details } = (body ?? {}) as { error?: string; details?: { path?: string } };
    if (one !== undefined && status !== 400) one.isRefused = false;
    if (status === 0 || status === 429 || status >= 500) return;
    checkedCount++;
    const where = `${client} of ${tenant}, with a package that nobody brings,`;
    if (status === 202 && isCatalogueFilled && !isAllowed) return reportViolation(`${where} was accepted`, [client]);
    if (status !== 202 && isAllowed)
      return reportViolation(`${where} allows that and was answered with ${status} ${error}`, [client]);
    if (status === 202) return;
    if (status !== 400 || error !== "E.WORKFLOW.INVALID" || details?.path?.endsWith("/package/name") !== true)
      reportViolation(`${where} was answered with ${status} ${error} at ${details?.path}`, [client]);
  };

  return {
    get checkedCount() {
      return checkedCount;
    },
    onObservation(observation) {
      if (observation.kind === "call") read(observation, observation.at);
    },
    onExchange({ call, answer }) {
      const ask = asks.get(call.call);
      if (ask !== undefined) check(ask, answer);
      if (call.route !== "listPackages" || answer.status !== 200 || catalogueFilledAt.has(call.tenant)) return;
      if ((answer.body as { items: readonly unknown[] }).items.length > 0) catalogueFilledAt.set(call.tenant, answer.at);
    },
    onFact({ type, tenant, run, data }) {
      if (type === "run.created") {
        const one = waiting.get(`${tenant} ${String(data["client"])}`);
        if (one !== undefined) one.run = run;
      }
      if (type !== "task.granted") return;
      const one = [...waiting].find(([, { run: waits }]) => waits === run);
      if (one !== undefined) reportViolation(`${one[0]} waits for a package that nobody brings and was given away`, [one[0]]);
    },
    onEnd() {
      for (const [name, { run, isRefused }] of waiting) {
        if (run === null) continue;
        checkedCount++;
        if (isRefused) return reportViolation(`${name} was refused, and run ${run} exists`, [run]);
        const end = projection.run(run)?.endStatus ?? null;
        if (end !== null && end !== "cancelled")
          return reportViolation(`${name} is ${end}, and nobody could carry it out`, [run]);
      }
    },
  };
}
