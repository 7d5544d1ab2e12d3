// I47: what lies with one worker is used there. An attempt that refers to a resource is granted to the worker that has it, as the log tells, and
// to no other, and to nobody once that worker has said that it is gone; tasks under one sticky key go to one worker until that is lost, or an operator says otherwise.

import type { Checker, CheckerContext } from "../../checking/checker.ts";
import type { ObservedFact } from "../../checking/merged-log.ts";
import { dispatchesIn, type JsonPayload, type ObservedFrame } from "../../checking/observed-frame.ts";

export function checkPinnedWorkRunsAtItsWorker({ reportViolation, projection }: CheckerContext): Checker {
  /** Who has each resource, by tenant and name. */
  const ownerOfResource = new Map<string, string>();
  /** Who has each sticky key, by tenant and key. */
  const keys = new Map<string, string>();
  /** Sent to whom, by `<task>#<fence>`: judged once the log tells where the resource lies. */
  const sent: {
    readonly tenant: string;
    readonly worker: string;
    readonly task: string;
    readonly fence: number;
    readonly resource: string;
  }[] = [];
  /** From which position on a worker's word says that a resource is gone, until one of that name is left again. */
  const gone = new Map<string, { readonly from: number; to: number }[]>();
  /** Positions of grants, by `<task>#<fence>`. */
  const grants = new Map<string, number>();
  let checkedCount = 0;

  const handleFrame = (frame: ObservedFrame): void => {
    const { seen: observation } = frame;
    if (observation.toward !== "worker" || observation.event !== "sent") return;
    const items =
      frame.type === "biz.exec.dispatch" ? [frame.payload] : ((frame.payload["items"] ?? []) as readonly JsonPayload[]);
    for (const [at, { task, fence }] of dispatchesIn(frame).entries())
      for (const resource of resourceIdsIn(items[at]?.["parameters"]))
        sent.push({ tenant: observation.tenant, worker: `${observation.tenant}/${observation.instance}`, task, fence, resource });
  };

  const checkKey = ({ data, tenant, position }: ObservedFact): void => {
    const task = projection.task(String(data["task"]));
    const affinity = task?.node?.affinity;
    if (task === undefined || affinity === undefined || affinity === null) return;
    const worker = String(data["worker"]);
    const name = `${tenant}/${affinity.key}`;
    const owner = keys.get(name) ?? worker;
    // What it refers to comes before its key.
    if (task.node?.isPinned === true) {
      keys.set(name, owner);
      return;
    }
    const isFree =
      owner === worker || projection.workers.get(owner)?.presence === "lost" || task.run.isRebound || wasRebound.has(name);
    checkedCount++;
    if (affinity.mode === "sticky" && !isFree)
      return reportViolation(
        `position ${position} of ${tenant} grants ${task.id} to ${worker}, and key ${affinity.key} is with ${owner}`,
        [task.id, worker],
      );
    if (affinity.mode === "sticky" || owner === worker || isFree) keys.set(name, worker);
  };
  /** Keys that an operator may have moved: a run that was rebound takes its keys along. */
  const wasRebound = new Set<string>();

  return {
    get checkedCount() {
      return checkedCount;
    },
    onFrame: handleFrame,
    onFact(fact) {
      const { type, data, tenant } = fact;
      if (type === "task.artifact") {
        const name = `${tenant}/${String(data["resource"])}`;
        ownerOfResource.set(name, String(data["worker"]));
        const last = gone.get(name)?.at(-1);
        if (last !== undefined) last.to = Math.min(last.to, fact.position);
      }
      // One that only its time has ended may still be there: its worker is asked.
      if (type === "artifact.removed" && data["worker"] !== undefined) {
        const name = `${tenant}/${String(data["resource"])}`;
        gone.set(name, [...(gone.get(name) ?? []), { from: fact.position, to: Number.POSITIVE_INFINITY }]);
      }
      if (type === "task.granted") grants.set(`${String(data["task"])}#${String(data["fence"])}`, fact.position);
      if (type === "worker.lost") for (const [name, owner] of keys) if (owner === fact.worker) keys.delete(name);
      if (type === "run.rebound") for (const name of keys.keys()) if (name.startsWith(`${tenant}/`)) wasRebound.add(name);
    },
    onTurn(_tenant, facts) {
      for (const fact of facts) if (fact.type === "task.granted") checkKey(fact);
    },
    onEnd() {
      for (const { tenant, worker, task, fence, resource } of sent) {
        const owner = ownerOfResource.get(`${tenant}/${resource}`);
        checkedCount++;
        if (owner !== worker)
          return reportViolation(`${task} was sent to ${worker}, and ${resource} lies with ${owner ?? "nobody"}`, [task, worker]);
        const granted = grants.get(`${task}#${fence}`) ?? Number.NaN;
        const told = gone.get(`${tenant}/${resource}`)?.find(({ from, to }) => from < granted && granted < to);
        if (told !== undefined)
          return reportViolation(`position ${granted} grants ${task}, and position ${told.from} says that ${resource} is gone`, [
            task,
            worker,
          ]);
      }
    },
  };
}

/** Names of the resources that some parameters refer to. */
function resourceIdsIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) =>
    key === "resourceRef" ? [String((inner as { resourceId?: unknown }).resourceId)] : resourceIdsIn(inner),
  );
}
