// Which resources a package's version asks for, from its stored manifest. Cached, so that a dispatch of a package that asks for nothing does
// not wait.

import { createHash } from "node:crypto";
import type { StoreReader } from "@astraflow/engine";
import { type PackageDocument, packageCollection, type ReportedPackage } from "../catalogue/manifest-recorder.ts";
import { readDocument } from "../documents/documents.ts";
import type { ServiceContext, ServiceEnvironment } from "../environment/service-environment.ts";
import type { ResourceRequirement } from "./resource-bindings.ts";

type RequirementList = readonly ResourceRequirement[];

const requirementLimits = {
  /** So long an answer is used without a look at the store. */
  freshMs: 1_000,
  /** Versions of packages of all tenants; beyond it all are read again. */
  entriesMax: 20_000,
  /** Read ahead of their first task at the same time. */
  concurrentReadsMax: 100,
} as const;

type CachedRequirements = { readonly requirements: RequirementList; readonly readAt: number };

/** By package, `<tenant>/<name>/<version>`. */
export class ResourceRequirements {
  readonly #reader: StoreReader;
  readonly #environment: ServiceEnvironment;
  readonly #whenManifestsStored: () => Promise<void>;
  readonly #entries = new Map<string, CachedRequirements>();
  readonly #reading = new Map<string, Promise<RequirementList>>();
  /** A digest of the requirements that a worker showed last, where it showed some. */
  readonly #lastReported = new Map<string, string>();
  /** Packages whose manifest is still on its way into the store. */
  readonly #awaitingStorage = new Set<string>();

  /** `whenManifestsStored` resolves when the manifests that were reported so far are stored. */
  constructor({ reader, environment }: Pick<ServiceContext, "reader" | "environment">, whenManifestsStored: () => Promise<void>) {
    this.#reader = reader;
    this.#environment = environment;
    this.#whenManifestsStored = whenManifestsStored;
  }

  /** Undefined: not read yet. An old answer counts, and is read again in the background. */
  getCached(tenant: string, name: string, version: string): RequirementList | undefined {
    const document = `${name}/${version}`;
    const entry = this.#entries.get(`${tenant}/${document}`);
    if (entry !== undefined && !this.#isFresh(entry)) this.#readInBackground(tenant, document);
    return entry?.requirements;
  }

  /** As of now, or of a second ago. */
  load(tenant: string, name: string, version: string): Promise<RequirementList> {
    const document = `${name}/${version}`;
    const entry = this.#entries.get(`${tenant}/${document}`);
    return entry !== undefined && this.#isFresh(entry) ? Promise.resolve(entry.requirements) : this.#readOnce(tenant, document);
  }

  /** A worker reports these: what they ask for is read before the first task of theirs is sent. Never throws. */
  preload(tenant: string, reported: readonly ReportedPackage[]): void {
    if (this.#lastReported.size >= requirementLimits.entriesMax) {
      this.#lastReported.clear();
      this.#awaitingStorage.clear();
    }
    for (const { name, version, manifest } of reported) {
      const document = `${name}/${version}`;
      const key = `${tenant}/${document}`;
      const digest = requirementsDigest(manifest);
      // Word of resources that nobody knew of: no task of it may leave before the manifest is kept and read.
      if (digest !== null && digest !== this.#lastReported.get(key)) {
        this.#lastReported.set(key, digest);
        this.#awaitingStorage.add(key);
        this.#entries.delete(key);
      }
      // What finds no room is read for its first task.
      if (!this.#entries.has(key) && this.#reading.size < requirementLimits.concurrentReadsMax)
        this.#readInBackground(tenant, document);
    }
  }

  #isFresh({ readAt }: CachedRequirements): boolean {
    return this.#environment.clock.monotonic() - readAt < requirementLimits.freshMs;
  }

  #readInBackground(tenant: string, document: string): void {
    if (this.#reading.has(`${tenant}/${document}`)) return;
    this.#readOnce(tenant, document).catch((problem: unknown) => {
      const why = problem instanceof Error ? problem.message : String(problem);
      this.#environment.log({ level: "warn", event: "bindings.needs_unread", tenant, package: document, why });
    });
  }

  #readOnce(tenant: string, document: string): Promise<RequirementList> {
    const key = `${tenant}/${document}`;
    const underWay = this.#reading.get(key) ?? this.#readStored(key, tenant, document).finally(() => this.#reading.delete(key));
    this.#reading.set(key, underWay);
    return underWay;
  }

  async #readStored(key: string, tenant: string, document: string): Promise<RequirementList> {
    for (;;) {
      const reported = this.#lastReported.get(key);
      if (this.#awaitingStorage.has(key)) await this.#whenManifestsStored();
      const readAt = this.#environment.clock.monotonic();
      const { doc } = await readDocument(this.#reader, tenant, packageCollection, document);
      // Another manifest was shown meanwhile: what was read may be the one before it.
      if (this.#lastReported.get(key) !== reported) continue;
      const requirements = doc === null ? [] : (JSON.parse(doc.body) as PackageDocument).manifest.requirements.resources;
      this.#awaitingStorage.delete(key);
      if (this.#entries.size >= requirementLimits.entriesMax) this.#entries.clear();
      this.#entries.set(key, { requirements, readAt });
      return requirements;
    }
  }
}

/** A digest of what it asks for. Null where that is nothing, or it is no manifest at all: then it is not kept either. */
function requirementsDigest(manifest: unknown): string | null {
  const { requirements } = (manifest ?? {}) as { requirements?: { resources?: unknown } | null };
  const resources = requirements?.resources;
  if (!Array.isArray(resources) || resources.length === 0) return null;
  return createHash("sha256").update(JSON.stringify(resources)).digest("base64");
}
