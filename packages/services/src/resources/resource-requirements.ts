// Which resources a package's version asks for, from its stored manifest. Cached, so that a dispatch of a package that asks for nothing does
// not wait.

import { createHash } from "node:crypto";
import { type PackageDocument, packageCollection, type StoreReader } from "@astraflow/engine";
import type { ReportedPackage } from "../catalogue/manifest-digest.ts";
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

/** Of the manifest announced last, and of every one that is stored, by its digest. */
interface VersionRequirements {
  readonly newest: RequirementList;
  readonly byManifest: ReadonlyMap<string, RequirementList>;
}

type CachedRequirements = VersionRequirements & { readonly readAt: number };

/** What a task of this package asks for at a worker with this manifest; one that is not stored asks as the newest does. */
export interface RequirementsQuery {
  readonly tenant: string;
  readonly name: string;
  readonly version: string;
  /** Digest; undefined: the worker announced none. */
  readonly manifest: string | undefined;
}

const requirementsFor = ({ newest, byManifest }: VersionRequirements, manifest: string | undefined): RequirementList =>
  (manifest === undefined ? undefined : byManifest.get(manifest)) ?? newest;

/** By package, `<tenant>/<name>/<version>`. */
export class ResourceRequirements {
  readonly #reader: StoreReader;
  readonly #environment: ServiceEnvironment;
  readonly #whenManifestsStored: () => Promise<void>;
  readonly #entries = new Map<string, CachedRequirements>();
  readonly #reading = new Map<string, Promise<VersionRequirements>>();
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

  /** Undefined: not read yet, or not for this manifest. An old answer counts, and is read again in the background. */
  getCached({ tenant, name, version, manifest }: RequirementsQuery): RequirementList | undefined {
    const document = `${name}/${version}`;
    const entry = this.#entries.get(`${tenant}/${document}`);
    if (entry === undefined || isUnknownManifest(entry, manifest)) return undefined;
    if (!this.#isFresh(entry)) this.#readInBackground(tenant, document);
    return requirementsFor(entry, manifest);
  }

  /** As of now, or of a second ago. */
  async load({ tenant, name, version, manifest }: RequirementsQuery): Promise<RequirementList> {
    const document = `${name}/${version}`;
    const key = `${tenant}/${document}`;
    const entry = this.#entries.get(key);
    const found = entry !== undefined && this.#isFresh(entry) ? entry : await this.#readOnce(tenant, document);
    if (!isUnknownManifest(found, manifest)) return requirementsFor(found, manifest);
    // Its worker has just announced it: what another manifest asks for must not go there.
    await this.#whenManifestsStored();
    return requirementsFor(await this.#readStored(key, tenant, document), manifest);
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

  #readOnce(tenant: string, document: string): Promise<VersionRequirements> {
    const key = `${tenant}/${document}`;
    const underWay = this.#reading.get(key) ?? this.#readStored(key, tenant, document).finally(() => this.#reading.delete(key));
    this.#reading.set(key, underWay);
    return underWay;
  }

  async #readStored(key: string, tenant: string, document: string): Promise<VersionRequirements> {
    for (;;) {
      const reported = this.#lastReported.get(key);
      if (this.#awaitingStorage.has(key)) await this.#whenManifestsStored();
      const readAt = this.#environment.clock.monotonic();
      const { doc } = await readDocument(this.#reader, tenant, packageCollection, document);
      // Another manifest was shown meanwhile: what was read may be the one before it.
      if (this.#lastReported.get(key) !== reported) continue;
      const requirements = doc === null ? noRequirements : requirementsIn(JSON.parse(doc.body) as PackageDocument);
      this.#awaitingStorage.delete(key);
      if (this.#entries.size >= requirementLimits.entriesMax) this.#entries.clear();
      this.#entries.set(key, { ...requirements, readAt });
      return requirements;
    }
  }
}

const noRequirements: VersionRequirements = { newest: [], byManifest: new Map() };

function requirementsIn(document: PackageDocument): VersionRequirements {
  const stored = [document, ...(document.others ?? [])];
  const byManifest = new Map(stored.map(({ digest, manifest }) => [digest, manifest.requirements.resources]));
  return { newest: document.manifest.requirements.resources, byManifest };
}

/** Whether it makes a difference that this manifest was not found. */
const isUnknownManifest = ({ newest, byManifest }: VersionRequirements, manifest: string | undefined): boolean =>
  manifest !== undefined && !byManifest.has(manifest) && [newest, ...byManifest.values()].some((list) => list.length > 0);

/** A digest of what it asks for. Null where that is nothing, or it is no manifest at all: then it is not kept either. */
function requirementsDigest(manifest: unknown): string | null {
  const { requirements } = (manifest ?? {}) as { requirements?: { resources?: unknown } | null };
  const resources = requirements?.resources;
  if (!Array.isArray(resources) || resources.length === 0) return null;
  return createHash("sha256").update(JSON.stringify(resources)).digest("base64");
}
