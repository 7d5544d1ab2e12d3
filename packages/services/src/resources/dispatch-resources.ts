// Looks up the resources that a task's package requires when its dispatch is about to leave, and adds them to its parameters.

import type { SendDispatch } from "@astraflow/engine";
import { errorMessage, type JsonObject } from "@astraflow/protocol";
import type { ReportedPackage } from "../catalogue/manifest-digest.ts";
import { withTimeout } from "../environment/concurrency.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import { type ResourceBinder, type ResourceBindings, unavailableBindings } from "./resource-bindings.ts";
import type { RequirementsQuery, ResourceRequirements } from "./resource-requirements.ts";

export const dispatchResourceLimits = {
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

export class DispatchResources {
  readonly #requirements: ResourceRequirements;
  readonly #bindings: ResourceBinder;
  readonly #environment: ServiceEnvironment;
  readonly #lookups = new Map<string, BindingLookup>();

  constructor(requirements: ResourceRequirements, bindings: ResourceBinder, environment: ServiceEnvironment) {
    this.#requirements = requirements;
    this.#bindings = bindings;
    this.#environment = environment;
  }

  /** `manifest`: digest of the one that its worker announced. False: its package requires nothing, so it leaves as it is. True: `onBound` is called once, later, with the dispatch to send instead. */
  bind(send: SendDispatch, manifest: string | undefined, onBound: (bound: SendDispatch) => void): boolean {
    if (this.#requirements.getCached(toRequirementsQuery(send, manifest))?.length === 0) return false;
    void this.#findShared(send, manifest).then((found) => onBound(found === null ? send : withBoundParams(send, found)));
    return true;
  }

  /** Reads ahead what these packages require. Neither waits nor throws. */
  prefetch(tenant: string, reported: readonly ReportedPackage[]): void {
    this.#requirements.preload(tenant, reported);
  }

  /** Tasks of one package and workflow that leave together share a lookup; secrets are not stored longer than that. */
  #findShared(send: SendDispatch, manifest: string | undefined): Promise<ResourceBindings | null> {
    const { packageName, packageVersion, workflow } = send.dispatch;
    const key = JSON.stringify([send.tenant, packageName, packageVersion, workflow ?? null, manifest ?? null]);
    const now = this.#environment.clock.monotonic();
    const shared = this.#lookups.get(key);
    if (shared !== undefined && now - shared.startedAt < dispatchResourceLimits.shareMs) return shared.found;
    const found = withTimeout(this.#environment, dispatchResourceLimits.lookupMs, this.#find(send, manifest)).catch(
      (problem: unknown) => this.#bindingsOnFailure(send, manifest, errorMessage(problem)),
    );
    const lookup: BindingLookup = { startedAt: now, found };
    this.#lookups.set(key, lookup);
    this.#environment.timers.after(dispatchResourceLimits.shareMs, () => {
      if (this.#lookups.get(key) === lookup) this.#lookups.delete(key);
    });
    return found;
  }

  async #find(send: SendDispatch, manifest: string | undefined): Promise<ResourceBindings | null> {
    const { tenant, dispatch } = send;
    const { packageName, packageVersion: version, workflow } = dispatch;
    const requirements = await this.#requirements.load(toRequirementsQuery(send, manifest));
    if (requirements.length === 0) return null;
    return this.#bindings.resolveBindings({ tenant, workflowId: workflow ?? null, packageName, version, requirements });
  }

  /** Errors for the requirements that are known of the package. */
  #bindingsOnFailure(send: SendDispatch, manifest: string | undefined, why: string): ResourceBindings | null {
    const { tenant, dispatch } = send;
    const { packageName, packageVersion, task } = dispatch;
    const about = { tenant, package: `${packageName}/${packageVersion}`, task, why };
    this.#environment.log({ level: "warn", event: "bindings.unavailable", ...about });
    const requirements = this.#requirements.getCached(toRequirementsQuery(send, manifest)) ?? [];
    return requirements.length === 0 ? null : unavailableBindings(requirements);
  }
}

const toRequirementsQuery = ({ tenant, dispatch }: SendDispatch, manifest: string | undefined): RequirementsQuery => ({
  tenant,
  name: dispatch.packageName,
  version: dispatch.packageVersion,
  manifest,
});

/** Both names are reserved for the scheduler: what an author or an edge put there is replaced. */
function withBoundParams(send: SendDispatch, bindings: ResourceBindings): SendDispatch {
  const { dispatch } = send;
  const { __resourceBindings: _bound, __resourceBindingErrors: _errors, ...own } = JSON.parse(dispatch.params) as JsonObject;
  return { ...send, dispatch: { ...dispatch, params: JSON.stringify({ ...own, ...bindings }) } };
}
