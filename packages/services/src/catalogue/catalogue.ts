// The packages, versions and node types of a tenant, from the stored manifests. Cached; what another scheduler stores shows within a second.

import {
  type DocRow,
  type PackageDocument,
  packageCollection,
  type StoreReader,
  type WorkerDescription,
  type WorkerRow,
} from "@astraflow/engine";
import { compareVersions, type PackageCatalogue } from "@astraflow/graph";
import {
  LruMap,
  type Manifest,
  type ManifestNode,
  omitUndefined,
  type SchemaMode,
  type WorkflowProblem,
} from "@astraflow/protocol";
import { type InPlaceLimits, NeedsOwnThread } from "../environment/in-place-limits.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { findManifestConflicts, type ManifestConflicts, noConflicts } from "../presentation/manifest-conflicts.ts";

/** One tenant's catalogue at one instant; it never changes. */
export interface Catalogue extends PackageCatalogue {
  /** By name; versions newest first. */
  readonly packages: readonly CataloguePackage[];
  manifest(name: string, version: string): Manifest | null;
  /** Digests of all manifests that are stored of a version, that of `manifest` first. */
  digests(name: string, version: string): readonly string[];
  /** Some version has several manifests. */
  readonly mayConflict: boolean;
  /** Position of the tenant's log that it is true at. */
  readonly asOf: number;
}

export interface CataloguePackage {
  readonly name: string;
  /** Newest first. */
  readonly versions: readonly string[];
}

const catalogueLimits = {
  /** So long it is used without a look at the store. */
  freshMs: 1_000,
  /** Then all is read again: documents that were removed leave no trace among the newest. */
  fullReloadMs: 300_000,
  /** Documents read at a time: many where they are small, few where each may have megabytes. Between two pages others have their turn. */
  pageMax: 25,
  largePageMax: 4,
  smallPageChars: 256 * 1024,
  /** Versions of packages of one tenant; the oldest words beyond it are left out. */
  manifestsMax: 10_000,
  /** Characters of all of them: what is held in memory for a tenant. */
  charsMax: 64 * 1024 * 1024,
  tenantsMax: 100,
  /** Packages and versions of one tenant that are known from lists of workers alone. */
  listedPackagesMax: 10_000,
} as const;

interface CachedManifest {
  readonly manifest: Manifest;
  /** Its own digest first, then those of the others of its version. */
  readonly digests: readonly string[];
}

interface CachedCatalogue {
  readonly schemaMode: SchemaMode;
  readonly manifests: Map<string, CachedManifest & { readonly rev: number }>;
  /** What workers list without a manifest, as far as it was asked for since all was read. */
  readonly listedPackages: Set<string>;
  catalogue: Catalogue;
  checkedAt: number;
  fullyLoadedAt: number;
}

export class CatalogueCache {
  readonly #reader: StoreReader;
  readonly #clock: ServiceContext["environment"]["clock"];
  readonly #schemaModeOf: (tenant: string) => SchemaMode;
  readonly #cached = new LruMap<string, CachedCatalogue>({ entriesMax: catalogueLimits.tenantsMax, touchOnGet: false });
  readonly #refreshing = new Map<string, Promise<CachedCatalogue>>();
  /** As of now, with the packages that workers list: a worker may have joined just now, or have no manifests. Asked before a refusal. */
  readonly reload = coalesceByKey((tenant: string) => this.#reloadWithWorkers(tenant));

  readonly #inPlace: InPlaceLimits | undefined;
  readonly #yieldLoop: () => Promise<void>;

  constructor({
    reader,
    environment,
    schemaModeOf,
    inPlace,
  }: Pick<ServiceContext, "reader" | "environment" | "schemaModeOf" | "inPlace">) {
    this.#reader = reader;
    this.#inPlace = inPlace;
    this.#yieldLoop = environment.yieldLoop ?? (() => Promise.resolve());
    this.#schemaModeOf = schemaModeOf ?? (() => "warn");
    this.#clock = environment.clock;
  }

  async current(tenant: string): Promise<Catalogue> {
    const cached = this.#cached.get(tenant);
    if (cached !== undefined && this.#clock.monotonic() - cached.checkedAt < catalogueLimits.freshMs) return cached.catalogue;
    return (await this.#refreshOnce(tenant)).catalogue;
  }

  /** Who has which manifest, where workers announced different ones of a version. Without such versions no worker is read. */
  async findConflicts(tenant: string): Promise<ManifestConflicts> {
    if (!(await this.current(tenant)).mayConflict) return noConflicts;
    return findManifestConflicts((await this.#reader.page({ page: "workers", tenant })).items);
  }

  /**
   * Checks with the cached catalogue, and if that finds an error again with a fresh one: a worker may just have joined. `stepsMax` is what a
   * check may take on this thread; undefined: as much as a workflow may take at all.
   */
  async check<T extends { readonly problems: readonly Pick<WorkflowProblem, "code" | "severity">[] }>(
    tenant: string,
    check: (catalogue: Catalogue, stepsMax: number | undefined) => T,
  ): Promise<T> {
    const result = this.#checkHere(await this.current(tenant), check);
    const hasErrors = result.problems.some(({ severity }) => severity === "error");
    return hasErrors ? this.#checkHere(await this.reload(tenant), check) : result;
  }

  #checkHere<T extends { readonly problems: readonly Pick<WorkflowProblem, "code">[] }>(
    catalogue: Catalogue,
    check: (catalogue: Catalogue, stepsMax: number | undefined) => T,
  ): T {
    const stepsMax = this.#inPlace?.checkStepsMax;
    const result = check(catalogue, stepsMax);
    if (stepsMax !== undefined && result.problems.some(({ code }) => code === "E.WORKFLOW.TOO_COSTLY"))
      throw new NeedsOwnThread(`the check of a workflow takes more than ${stepsMax} steps`);
    return result;
  }

  async #reloadWithWorkers(tenant: string): Promise<Catalogue> {
    // A look that is under way may have begun before what the caller knows of. Whether it fails is for those who wait for it.
    await Promise.allSettled([this.#refreshing.get(tenant)]);
    const workers = this.#reader.page({ page: "workers", tenant });
    const [{ items }, cached] = await Promise.all([workers, this.#refreshOnce(tenant)]);
    if (addListedPackages(cached, items)) cached.catalogue = buildFromCache(cached, cached.catalogue.asOf);
    return cached.catalogue;
  }

  #refreshOnce(tenant: string): Promise<CachedCatalogue> {
    const underWay = this.#refreshing.get(tenant) ?? this.#refresh(tenant).finally(() => this.#refreshing.delete(tenant));
    this.#refreshing.set(tenant, underWay);
    return underWay;
  }

  async #refresh(tenant: string): Promise<CachedCatalogue> {
    const now = this.#clock.monotonic();
    const cached = this.#cached.get(tenant) ?? emptyCachedCatalogue(this.#schemaModeOf(tenant));
    const isFullLoad = now - cached.fullyLoadedAt >= catalogueLimits.fullReloadMs;
    const asOf = await this.#loadDocuments(tenant, cached, isFullLoad);
    cached.checkedAt = now;
    if (isFullLoad) cached.fullyLoadedAt = now;
    this.#cached.set(tenant, cached);
    cached.catalogue = { ...cached.catalogue, asOf };
    return cached;
  }

  /** The documents that were written last first, until a page brings nothing new. */
  async #loadDocuments(tenant: string, cached: CachedCatalogue, isFullLoad: boolean): Promise<number> {
    const query = { page: "docs", tenant, collection: packageCollection, order: "desc" } as const;
    let limit: number = catalogueLimits.largePageMax;
    const seen = new Set<string>();
    let after: string | undefined;
    let changes = 0;
    let chars = 0;
    for (;;) {
      const page = await this.#reader.page({ ...query, limit, ...(after !== undefined && { after }) });
      const changed = page.items.filter((doc) => cached.manifests.get(doc.id)?.rev !== doc.rev);
      for (const doc of changed) cached.manifests.set(doc.id, { rev: doc.rev, ...parseManifestDocument(doc) });
      for (const doc of page.items) seen.add(doc.id);
      const pageChars = page.items.reduce((sum, doc) => sum + doc.body.length, 0);
      chars += pageChars;
      limit = isFullLoad && pageChars <= catalogueLimits.smallPageChars ? catalogueLimits.pageMax : catalogueLimits.largePageMax;
      changes += changed.length;
      const isEnough = !isFullLoad && changed.length === 0;
      const isFull = seen.size >= catalogueLimits.manifestsMax || chars >= catalogueLimits.charsMax;
      if (page.next === null || isEnough || isFull) {
        if (isFullLoad) {
          for (const id of cached.manifests.keys()) if (!seen.has(id)) cached.manifests.delete(id);
          cached.listedPackages.clear();
        }
        if (changes > 0 || isFullLoad) cached.catalogue = buildFromCache(cached, page.head);
        return page.head;
      }
      after = page.next;
      await this.#yieldLoop();
    }
  }
}

/** Each caller gets a call that started after it asked, and concurrent callers share one call per key. */
function coalesceByKey<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const underWay = new Map<string, Promise<T>>();
  const next = new Map<string, Promise<T>>();
  const begin = (key: string): Promise<T> => {
    const begun = work(key).finally(() => underWay.delete(key));
    underWay.set(key, begun);
    return begun;
  };
  const queue = async (key: string, before: Promise<T>): Promise<T> => {
    await Promise.allSettled([before]);
    next.delete(key);
    return begin(key);
  };
  return (key) => {
    const before = underWay.get(key);
    const joined = next.get(key) ?? (before === undefined ? null : queue(key, before));
    if (joined === null) return begin(key);
    next.set(key, joined);
    return joined;
  };
}

/** True where the workers list something that was not known. */
function addListedPackages({ listedPackages: listed, catalogue }: CachedCatalogue, workers: readonly WorkerRow[]): boolean {
  const before = listed.size;
  for (const worker of workers)
    for (const { name, version } of (JSON.parse(worker.about) as WorkerDescription).packages) {
      if (catalogue.manifest(name, version) !== null || listed.size >= catalogueLimits.listedPackagesMax) continue;
      listed.add(name).add(packageVersionKey(name, version));
    }
  return listed.size > before;
}

/** No name has a line break. */
const packageVersionKey = (name: string, version: string): string => `${name}\n${version}`;

function buildFromCache({ manifests: docs, listedPackages: listed, schemaMode }: CachedCatalogue, asOf: number): Catalogue {
  return buildCatalogue([...docs.values()], asOf, schemaMode, listed);
}

const emptyCachedCatalogue = (schemaMode: SchemaMode): CachedCatalogue => ({
  schemaMode,
  manifests: new Map(),
  listedPackages: new Set(),
  catalogue: buildCatalogue([], 0, schemaMode),
  checkedAt: Number.NEGATIVE_INFINITY,
  fullyLoadedAt: Number.NEGATIVE_INFINITY,
});

function parseManifestDocument(doc: DocRow): CachedManifest {
  const { manifest, digest, others = [] } = JSON.parse(doc.body) as PackageDocument;
  return { manifest, digests: [digest, ...others.map((one) => one.digest)] };
}

/** What these manifests say, as it is asked for; `listed` are packages and versions that workers name without one. */
function buildCatalogue(
  manifests: readonly CachedManifest[],
  asOf: number,
  schemaMode: SchemaMode,
  listed: ReadonlySet<string> = new Set(),
): Catalogue {
  const alsoListed = new Set(listed);
  const byName = new Map<string, Map<string, CachedManifest>>();
  for (const cached of manifests) {
    const { name, version } = cached.manifest;
    const versions = byName.get(name) ?? new Map<string, CachedManifest>();
    byName.set(name, versions.set(version, cached));
  }
  const packages = [...byName]
    .map(([name, versions]) => ({ name, versions: [...versions.keys()].sort((a, b) => compareVersions(b, a)) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const versionsOf = new Map(packages.map((one) => [one.name, one.versions]));
  const find = (name: string, version: string): CachedManifest | undefined => byName.get(name)?.get(version);
  return {
    packages,
    manifest: (name, version) => find(name, version)?.manifest ?? null,
    digests: (name, version) => find(name, version)?.digests ?? [],
    mayConflict: manifests.some(({ digests }) => digests.length > 1),
    asOf,
    // The default is not written into definitions.
    ...(schemaMode !== "warn" && { schemaMode }),
    names: packages.map(({ name }) => name),
    isListed: (name, version) => alsoListed.has(version === undefined ? name : packageVersionKey(name, version)),
    versions: (name) => versionsOf.get(name) ?? [],
    node: (name, version, type) => findNodeType(find(name, version), type),
    nodeTypes: (name, version) => find(name, version)?.manifest.nodes.map(({ type }) => type) ?? [],
  };
}

function findNodeType(cached: CachedManifest | undefined, type: string): ReturnType<PackageCatalogue["node"]> {
  const node: ManifestNode | undefined = cached?.manifest.nodes.find((one) => one.type === type);
  if (node === undefined) return null;
  const schemaMode = node.schemaMode ?? cached?.manifest.schemaMode;
  const idempotency = cached?.manifest.adapters.find(({ name }) => name === node.adapter)?.idempotency;
  const optional = { schemaMode, ports: node.ui, manifest: cached?.digests[0], idempotency };
  return { schema: node.schema, role: node.role, ...omitUndefined(optional) };
}
