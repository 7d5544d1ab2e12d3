// I53: a package that nobody brings is refused by name where the tenant's catalogue knows any; where that is allowed, or nobody has brought
// anything yet, its run waits, is given to nobody, and ends when it is cancelled.

import type { AnswerSeen, CallSeen, TrueTime } from "../observation.ts";
import type { Bench, Checker } from "./checker.ts";
import type { Asked } from "./plans.ts";

interface Ask {
  readonly client: string;
  readonly isAllowed: boolean;
  /** Whether the tenant's catalogue had been seen to know a package, long enough before for every scheduler to have looked. */
  readonly isPeopled: boolean;
}

/** A scheduler looks at the catalogue anew after a second by its own clock. */
const freshMs = 2_000;

export function unknownPackage({ fail, lives, scene }: Bench): Checker {
  const asks = new Map<number, Ask>();
  /** When each tenant's catalogue was first seen to know something. */
  const peopled = new Map<string, TrueTime>();
  /** Clients by tenant: which run waits for a package that nobody brings, and whether every one of its calls was refused. */
  const waiting = new Map<string, { run: string | null; isRefused: boolean }>();
  let saw = 0;

  const read = (call: CallSeen, at: TrueTime): void => {
    if (call.route !== "startRun" || call.body === null) return;
    const asked = JSON.parse(call.body) as Asked & { readonly allowUnknown?: boolean };
    const brought = new Set(scene.setUp?.workers.map(({ packageName }) => packageName));
    if (asked.workflow.nodes.every((node) => brought.has(node.package.name))) return;
    const { clientId: client, allowUnknown = false } = asked;
    asks.set(call.call, { client, isAllowed: allowUnknown, isPeopled: at - (peopled.get(call.tenant) ?? at) > freshMs });
    const name = `${call.tenant} ${client}`;
    if (!waiting.has(name)) waiting.set(name, { run: null, isRefused: true });
  };

  const judge = ({ client, isAllowed, isPeopled }: Ask, { status, body, tenant }: AnswerSeen): void => {
    const one = waiting.get(`${tenant} ${client}`);
    const { error, details } = (body ?? {}) as { error?: string; details?: { path?: string } };
    if (one !== undefined && status !== 400) one.isRefused = false;
    if (status === 0 || status === 429 || status >= 500) return;
    saw++;
    const where = `${client} of ${tenant}, with a package that nobody brings,`;
    if (status === 202 && isPeopled && !isAllowed) return fail(`${where} was accepted`, [client]);
    if (status !== 202 && isAllowed) return fail(`${where} allows that and was answered with ${status} ${error}`, [client]);
    if (status === 202) return;
    if (status !== 400 || error !== "E.WORKFLOW.INVALID" || details?.path?.endsWith("/package/name") !== true)
      fail(`${where} was answered with ${status} ${error} at ${details?.path}`, [client]);
  };

  return {
    get saw() {
      return saw;
    },
    observe(seen) {
      if (seen.kind === "call") read(seen, seen.at);
    },
    exchange({ call, answer }) {
      const ask = asks.get(call.call);
      if (ask !== undefined) judge(ask, answer);
      if (call.route !== "listPackages" || answer.status !== 200 || peopled.has(call.tenant)) return;
      if ((answer.body as { items: readonly unknown[] }).items.length > 0) peopled.set(call.tenant, answer.at);
    },
    fact({ type, tenant, run, data }) {
      if (type === "run.created") {
        const one = waiting.get(`${tenant} ${String(data["client"])}`);
        if (one !== undefined) one.run = run;
      }
      if (type !== "task.granted") return;
      const one = [...waiting].find(([, { run: waits }]) => waits === run);
      if (one !== undefined) fail(`${one[0]} waits for a package that nobody brings and was given away`, [one[0]]);
    },
    end() {
      for (const [name, { run, isRefused }] of waiting) {
        if (run === null) continue;
        saw++;
        if (isRefused) return fail(`${name} was refused, and run ${run} exists`, [run]);
        const end = lives.run(run)?.end ?? null;
        if (end !== null && end !== "cancelled") return fail(`${name} is ${end}, and nobody could carry it out`, [run]);
      }
    },
  };
}
