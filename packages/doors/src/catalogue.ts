// The catalogue of a tenant: which packages, versions and node types there are, from the manifests that are kept. Held in memory and
// looked after at every use; what another scheduler has kept shows within a second.

import type { DocRow, Reader, WorkerAbout, WorkerRow } from "@astraflow/engine";
import { compareVersions, type PackageCatalogue } from "@astraflow/graph";
import type { Manifest, ManifestNode } from "@astraflow/protocol";
import { type PackageDoc, packageCollection } from "./manifests.ts";
import type { DoorEnvironment } from "./outside.ts";

/** One tenant's catalogue at one instant; it never changes. */
export interface Catalogue extends PackageCatalogue {
  /** By name; versions newest first. */
  readonly packages: readonly CataloguePackage[];
  manifest(name: string, version: string): Manifest | null;
  /** Position of the tenant's log that it is true at. */
  readonly asOf: number;
}

export interface CataloguePackage {
  readonly name: string;
  /** Newest first. */
  readonly versions: readonly string[];
}

export interface Catalogues {
  of(tenant: string): Promise<Catalogue>;
  /**
   * As things are this instant, with the packages that workers list: for whoever would refuse something otherwise. A worker is there as soon
   * as it has joined, its manifests are kept a moment later, and a worker without manifests has packages all the same.
   */
  anew(tenant: string): Promise<Catalogue>;
}

export interface CataloguesOptions {
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
}

const catalogueLimits = {
  /** So long it is used without a look at the store. */
  freshMs: 1_000,
  /** Then all is read again: documents that were removed leave no trace among the newest. */
  wholeMs: 300_000,
  /** Documents read at a time, each perhaps a megabyte: when all are read, and when only the newest are looked at. */
  pageMax: 25,
  glanceMax: 4,
  /** Versions of packages of one tenant; the oldest words beyond it are left out. */
  docsMax: 10_000,
  /** Characters of all of them: what is held in memory for a tenant. */
  charsMax: 64 * 1024 * 1024,
  tenantsMax: 100,
  /** Packages and versions of one tenant that are known from lists of workers alone. */
  listedMax: 10_000,
} as const;

interface Shelf {
  readonly docs: Map<string, { readonly rev: number; readonly manifest: Manifest }>;
  /** What workers list without a manifest, as far as it was asked for since all was read. */
  readonly listed: Set<string>;
  catalogue: Catalogue;
  lookedAt: number;
  readWholeAt: number;
}

export function createCatalogues({ reader, environment }: CataloguesOptions): Catalogues {
  const shelves = new Map<string, Shelf>();
  const looking = new Map<string, Promise<Shelf>>();

  /** The documents that were written last first, until a page brings nothing new. */
  const look = async (tenant: string, shelf: Shelf, isWhole: boolean): Promise<number> => {
    let after: string | undefined;
    const seen = new Set<string>();
    let changes = 0;
    let chars = 0;
    for (;;) {
      const page = await reader.page({
        page: "docs",
        tenant,
        collection: packageCollection,
        order: "desc",
        limit: isWhole ? catalogueLimits.pageMax : catalogueLimits.glanceMax,
        ...(after !== undefined && { after }),
      });
      const fresh = page.items.filter((doc) => shelf.docs.get(doc.id)?.rev !== doc.rev);
      for (const doc of fresh) shelf.docs.set(doc.id, { rev: doc.rev, manifest: manifestIn(doc) });
      for (const doc of page.items) seen.add(doc.id);
      chars += page.items.reduce((sum, doc) => sum + doc.body.length, 0);
      changes += fresh.length;
      const isEnough = !isWhole && fresh.length === 0;
      const isFull = seen.size >= catalogueLimits.docsMax || chars >= catalogueLimits.charsMax;
      if (page.next === null || isEnough || isFull) {
        if (isWhole) for (const id of shelf.docs.keys()) if (!seen.has(id)) changes += shelf.docs.delete(id) ? 1 : 0;
        if (isWhole) shelf.listed.clear();
        if (changes > 0 || isWhole) shelf.catalogue = catalogueOn(shelf, page.head);
        return page.head;
      }
      after = page.next;
    }
  };

  const refresh = async (tenant: string): Promise<Shelf> => {
    const now = environment.clock.monotonic();
    const shelf = shelves.get(tenant) ?? emptyShelf();
    const isWhole = now - shelf.readWholeAt >= catalogueLimits.wholeMs;
    const asOf = await look(tenant, shelf, isWhole);
    shelf.lookedAt = now;
    if (isWhole) shelf.readWholeAt = now;
    // Put last again: the first is the one that was longest unused.
    shelves.delete(tenant);
    shelves.set(tenant, shelf);
    for (const oldest of shelves.keys()) {
      if (shelves.size <= catalogueLimits.tenantsMax) break;
      shelves.delete(oldest);
    }
    shelf.catalogue = { ...shelf.catalogue, asOf };
    return shelf;
  };

  const looked = (tenant: string): Promise<Shelf> => {
    const underWay = looking.get(tenant) ?? refresh(tenant).finally(() => looking.delete(tenant));
    looking.set(tenant, underWay);
    return underWay;
  };

  const renew = async (tenant: string): Promise<Catalogue> => {
    // A look that is under way may have begun before what the caller knows of. Whether it fails is for those who wait for it.
    await Promise.allSettled([looking.get(tenant)]);
    const [{ items }, shelf] = await Promise.all([reader.page({ page: "workers", tenant }), looked(tenant)]);
    if (addListed(shelf, items)) shelf.catalogue = catalogueOn(shelf, shelf.catalogue.asOf);
    return shelf.catalogue;
  };

  return {
    async of(tenant) {
      const shelf = shelves.get(tenant);
      if (shelf !== undefined && environment.clock.monotonic() - shelf.lookedAt < catalogueLimits.freshMs) return shelf.catalogue;
      return (await looked(tenant)).catalogue;
    },
    anew: oneAtATime(renew),
  };
}

/**
 * Work that is done for a key at most once at a time: whoever comes while it is under way waits for the next time, with all others that came
 * since. Whatever was true when he came is so found, and a crowd of refused requests costs no more than one after the other.
 */
function oneAtATime<T>(work: (key: string) => Promise<T>): (key: string) => Promise<T> {
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
function addListed({ listed, catalogue }: Shelf, workers: readonly WorkerRow[]): boolean {
  const before = listed.size;
  for (const worker of workers)
    for (const { name, version } of (JSON.parse(worker.about) as WorkerAbout).packages) {
      if (catalogue.manifest(name, version) !== null || listed.size >= catalogueLimits.listedMax) continue;
      listed.add(name).add(listedName(name, version));
    }
  return listed.size > before;
}

/** No name has a line break. */
const listedName = (name: string, version: string): string => `${name}\n${version}`;

const catalogueOn = ({ docs, listed }: Shelf, asOf: number): Catalogue =>
  catalogueOf(
    [...docs.values()].map((doc) => doc.manifest),
    asOf,
    listed,
  );

const emptyShelf = (): Shelf => ({
  docs: new Map(),
  listed: new Set(),
  catalogue: catalogueOf([], 0),
  lookedAt: Number.NEGATIVE_INFINITY,
  readWholeAt: Number.NEGATIVE_INFINITY,
});

const manifestIn = (doc: DocRow): Manifest => (JSON.parse(doc.body) as PackageDoc).manifest;

/** What these manifests say, as it is asked for; `listed` are packages and versions that workers name without one. */
export function catalogueOf(manifests: readonly Manifest[], asOf: number, listed: ReadonlySet<string> = new Set()): Catalogue {
  const alsoListed = new Set(listed);
  const byName = new Map<string, Map<string, Manifest>>();
  for (const manifest of manifests) {
    const versions = byName.get(manifest.name) ?? new Map<string, Manifest>();
    byName.set(manifest.name, versions.set(manifest.version, manifest));
  }
  const packages = [...byName]
    .map(([name, versions]) => ({ name, versions: [...versions.keys()].sort((a, b) => compareVersions(b, a)) }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  const versionsOf = new Map(packages.map((one) => [one.name, one.versions]));
  const manifest = (name: string, version: string): Manifest | null => byName.get(name)?.get(version) ?? null;
  return {
    packages,
    manifest,
    asOf,
    names: packages.map(({ name }) => name),
    isListed: (name, version) => alsoListed.has(version === undefined ? name : listedName(name, version)),
    versions: (name) => versionsOf.get(name) ?? [],
    node: (name, version, type) => nodeIn(manifest(name, version), type),
  };
}

function nodeIn(manifest: Manifest | null, type: string): ReturnType<PackageCatalogue["node"]> {
  const node: ManifestNode | undefined = manifest?.nodes.find((one) => one.type === type);
  if (node === undefined) return null;
  return { schema: node.schema, role: node.role, ...(node.ui !== undefined && { ports: node.ui }) };
}
