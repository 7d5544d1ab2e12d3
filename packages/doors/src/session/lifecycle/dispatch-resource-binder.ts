// Looks up the resources that a task's package requires when its dispatch is about to leave, and adds them to its parameters.

import type { SendDispatch } from "@astraflow/engine";
import type { JsonObject } from "@astraflow/protocol";
import {
  type ReportedPackage,
  type ResourceBinder,
  type ResourceBindings,
  type ResourceRequirements,
  unavailableBindings,
} from "@astraflow/services";
import type { DoorEnvironment } from "../../environment/door-environment.ts";

export interface DispatchResourceBinder {
  /** False: its package requires nothing, so it leaves as it is. True: `onBound` is called once, later, with the dispatch to send instead. */
  bind(send: SendDispatch, onBound: (bound: SendDispatch) => void): boolean;
  /** Reads ahead what these packages require. Neither waits nor throws. */
  prefetch(tenant: string, reported: readonly ReportedPackage[]): void;
}

export interface DispatchResourceBinderOptions {
  readonly needs: ResourceRequirements;
  readonly bindings: ResourceBinder;
  readonly environment: DoorEnvironment;
}

export const binderLimits = {
  /** After this time the task is sent with an error instead of the resources. Also the longest time that a revoked grant is used. */
  lookupMs: 2_000,
  /** For this time after its start a lookup also serves other tasks. */
  shareMs: 1_000,
} as const;

interface BindingLookup {
  readonly startedAt: number;
  /** Never rejects; null where the package requires nothing. */
  readonly found: Promise<ResourceBindings | null>;
}

export function createDispatchResourceBinder({
  needs,
  bindings,
  environment,
}: DispatchResourceBinderOptions): DispatchResourceBinder {
  const lookups = new Map<string, BindingLookup>();

  const find = async ({ tenant, dispatch }: SendDispatch): Promise<ResourceBindings | null> => {
    const { packageName, packageVersion: version, workflow } = dispatch;
    const requirements = await needs.load(tenant, packageName, version);
    if (requirements.length === 0) return null;
    return bindings.resolveBindings({ tenant, workflowId: workflow ?? null, packageName, version, requirements });
  };

  /** Errors for the requirements that are known of the package. */
  const bindingsOnFailure = ({ tenant, dispatch }: SendDispatch, why: string): ResourceBindings | null => {
    const { packageName, packageVersion, task } = dispatch;
    environment.log({
      level: "warn",
      event: "bindings.unavailable",
      tenant,
      package: `${packageName}/${packageVersion}`,
      task,
      why,
    });
    const requirements = needs.getCached(tenant, packageName, packageVersion);
    return requirements === undefined || requirements.length === 0 ? null : unavailableBindings(requirements);
  };

  const findWithTimeout = (send: SendDispatch): Promise<ResourceBindings | null> =>
    new Promise((resolve) => {
      const timeoutMessage = `not found within ${binderLimits.lookupMs} ms`;
      const cancelTimeout = environment.timers.after(binderLimits.lookupMs, () =>
        resolve(bindingsOnFailure(send, timeoutMessage)),
      );
      find(send).then(
        (found) => {
          cancelTimeout();
          resolve(found);
        },
        (problem: unknown) => {
          cancelTimeout();
          resolve(bindingsOnFailure(send, problem instanceof Error ? problem.message : String(problem)));
        },
      );
    });

  /** Tasks of one package and workflow that leave together share a lookup; secrets are not stored longer than that. */
  const findShared = (send: SendDispatch): Promise<ResourceBindings | null> => {
    const { packageName, packageVersion, workflow } = send.dispatch;
    const key = JSON.stringify([send.tenant, packageName, packageVersion, workflow ?? null]);
    const now = environment.clock.monotonic();
    const shared = lookups.get(key);
    if (shared !== undefined && now - shared.startedAt < binderLimits.shareMs) return shared.found;
    const lookup: BindingLookup = { startedAt: now, found: findWithTimeout(send) };
    lookups.set(key, lookup);
    environment.timers.after(binderLimits.shareMs, () => {
      if (lookups.get(key) === lookup) lookups.delete(key);
    });
    return lookup.found;
  };

  return {
    bind(send, onBound) {
      const { packageName, packageVersion } = send.dispatch;
      if (needs.getCached(send.tenant, packageName, packageVersion)?.length === 0) return false;
      void findShared(send).then((found) => onBound(found === null ? send : withBoundParams(send, found)));
      return true;
    },
    prefetch: (tenant, reported) => needs.preload(tenant, reported),
  };
}

function withBoundParams(send: SendDispatch, found: ResourceBindings): SendDispatch {
  const { dispatch } = send;
  return { ...send, dispatch: { ...dispatch, params: withBindings(dispatch.params, found) } };
}

/** Both names are reserved for the scheduler: what an author or an edge put there is replaced. */
function withBindings(params: string, bindings: ResourceBindings): string {
  const { __resourceBindings: _bound, __resourceBindingErrors: _errors, ...own } = JSON.parse(params) as JsonObject;
  return JSON.stringify({ ...own, ...bindings });
}
