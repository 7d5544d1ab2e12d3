// The repository of node packages: versions are published once and never change, signed by a key that the tenant trusts. The archive is
// written before the version, under a marker that has it deleted if the version is never written; the manifest enters the catalogue with
// the version.

import { comparePackageVersions } from "@astraflow/archive";
import { type DocPut, packageCollection } from "@astraflow/engine";
import {
  Fault,
  fault,
  limits,
  type Manifest,
  type PackageHolder,
  type PackageSignature,
  type PackageVersion,
  packageLimits,
  readJson,
  readPackageSignature,
} from "@astraflow/protocol";
import { planManifestPut } from "../catalogue/manifest-recorder.ts";
import {
  auditRefusal,
  type DocumentWrite,
  idempotencyKeyFor,
  isConflict,
  RecordStore,
  readDocument,
  registerIdempotencyKey,
  retryOnConflict,
} from "../documents/documents.ts";
import { decodeCursor, encodeCursor } from "../documents/page-cursors.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import type { BlobReservation, ResourceRepository } from "../resources/resource-repository.ts";
import type { StoredBlob } from "../resources/blob-store.ts";
import { type CheckedArchive, checkStoredArchive, type StoredArchive } from "./archive-check.ts";
import { findPackageHolders } from "./package-holders.ts";
import type { PackageKeys } from "./package-keys.ts";
import { packageVersionCollection, packageVersionId, packageVersionPut, type PackageVersionRecord } from "./package-store.ts";

export interface PackageRepositoryOptions {
  /** Packages without a signature may be published by tenants that trust no key. */
  readonly allowsUnsignedPackages?: boolean;
  /** Checks an archive on another thread; absent: here. */
  readonly checkArchiveElsewhere?: (archive: StoredArchive) => Promise<CheckedArchive>;
}

export interface PublishRequest {
  readonly bytes: AsyncIterable<Uint8Array>;
  /** The text of the signature; called when all bytes have been read. */
  readonly readSignature: () => string | undefined;
  readonly key: string | null;
}

export interface PublishedVersion {
  readonly record: PackageVersionRecord;
  /** The same archive was published before. */
  readonly wasThere: boolean;
  /** By a request with this idempotency key. */
  readonly repeated: boolean;
}

/** An archive whose bytes are stored and in which nothing is wrong. */
interface VerifiedArchive extends CheckedArchive {
  readonly signature: PackageSignature | null;
  readonly stored: StoredBlob;
}

/** The write that publishes a version. */
interface PlannedVersion extends Required<Pick<DocumentWrite, "puts" | "drops" | "ask">> {
  readonly record: PackageVersionRecord;
}

/** Workers may announce the same version at the same time. */
const writeAttemptsMax = 5;

export class PackageRepository {
  readonly #context: ServiceContext;
  readonly #options: PackageRepositoryOptions;
  readonly #resources: ResourceRepository;
  readonly #keys: PackageKeys;
  readonly #records: RecordStore<PackageVersionRecord>;

  constructor(context: ServiceContext & PackageRepositoryOptions, resources: ResourceRepository, keys: PackageKeys) {
    this.#context = context;
    this.#options = context;
    this.#resources = resources;
    this.#keys = keys;
    this.#records = new RecordStore(context, packageVersionCollection);
  }

  /** Throws E.NOT_FOUND where there is none. */
  async find(tenant: string, name: string, version: string) {
    const { record, rev, head } = await this.#records.find(tenant, packageVersionId(name, version));
    if (record !== null) return { record, rev, head };
    throw fault("E.NOT_FOUND", `there is no published version ${version.slice(0, 100)} of package ${name.slice(0, 100)}`);
  }

  /** Newest first. */
  async list(tenant: string, name: string): Promise<{ readonly items: readonly PackageVersionRecord[]; readonly head: number }> {
    const query = { tenant, prefix: `${name}/`, limit: packageLimits.versionsMax };
    const { items, head } = await this.#records.list(query);
    const records = items.map(({ record }) => record).filter((record) => record.name === name);
    return { items: records.sort((a, b) => compareNewestFirst(a.version, b.version)), head };
  }

  async listShown(tenant: string, name: string, page: { readonly cursor: string | undefined; readonly limit: number }) {
    const { items: all, head } = await this.list(tenant, name);
    if (all.length === 0) throw notPublishedFault(name);
    const after = decodeCursor(page.cursor, (text) => text !== "" && text.length <= limits.idCharsMax);
    const rest = after === undefined ? all : all.filter(({ version }) => compareNewestFirst(version, after) > 0);
    const items = rest.slice(0, page.limit);
    const holders = await this.#findHolders(tenant, name);
    return {
      items: items.map((record) => presentPackageVersion(record, holders.get(record.version))),
      nextCursor: rest.length > items.length ? encodeCursor(items.at(-1)?.version ?? null) : null,
      asOf: head,
    };
  }

  async show(tenant: string, record: PackageVersionRecord): Promise<PackageVersion> {
    const holders = await this.#findHolders(tenant, record.name);
    return presentPackageVersion(record, holders.get(record.version));
  }

  blobStoreOf({ provider }: PackageVersionRecord) {
    return this.#resources.blobStoreOf(provider);
  }

  /** All of it or nothing: what is refused leaves no bytes. */
  async publish(caller: Caller, { bytes, readSignature, key }: PublishRequest): Promise<PublishedVersion> {
    const { tenant } = caller.identity;
    await this.#resources.sweepExpiredUploads(tenant);
    const reservation = await this.#resources.reserveBlob(actorOf(caller));
    let isWriting = false;
    try {
      const blobs = this.#resources.blobStoreOf(reservation.provider);
      const stored = await blobs.write(reservation.blobKey, bytes, packageLimits.archiveBytesMax);
      const signature = parseSignature(readSignature());
      const archive = await this.#verify(caller, reservation, stored, signature);
      const published = await retryOnConflict(writeAttemptsMax, async () => {
        isWriting = false;
        const existing = await this.#findSame(caller, archive, key);
        if (existing !== null) return existing;
        const write = await this.#planPublishing(caller, archive, reservation, key);
        isWriting = true;
        return this.#write(caller, write);
      });
      if (published.record.blob !== reservation.blobKey.name) await reservation.release();
      return published;
    } catch (why) {
      // If it is unknown whether the version was written, the bytes stay; if it was not, the sweep finds them by their marker.
      if (!isWriting || isConflict(why) || isMismatch(why)) await reservation.release();
      throw why;
    }
  }

  /** Refused while workers hold the version. The catalogue keeps its manifest: workflows that name it can still be read. */
  async delete(caller: Caller, name: string, version: string): Promise<void> {
    const { engineClient } = this.#context;
    const { tenant } = caller.identity;
    const { record, rev } = await this.find(tenant, name, version);
    const audit = { action: "package.delete", targetType: "package", target: record.id, data: { sha256: record.sha256 } };
    await auditRefusal(engineClient, caller, audit, async () => {
      const holders = (await this.#findHolders(tenant, name)).get(version) ?? [];
      if (holders.length > 0) throw heldFault(record, holders);
    });
    const actor = actorOf(caller);
    const deletions = blobsOf(record).map(({ blob, provider }) => this.#resources.planBlobDeletion(actor, blob, provider));
    const { revs } = await this.#records.write(actor, {
      puts: deletions.map(({ put }) => put),
      drops: [{ collection: packageVersionCollection, name: record.id, rev }],
      audit,
    });
    for (const [index, { complete }] of deletions.entries()) await complete(revs[index] ?? 1);
  }

  /** Refused archives are in the audit: somebody tried to bring code to all workers. */
  #verify(
    caller: Caller,
    { provider, blobKey }: BlobReservation,
    stored: StoredBlob,
    signature: PackageSignature | null,
  ): Promise<VerifiedArchive> {
    const { engineClient } = this.#context;
    const { sizeBytes, sha256 } = stored;
    const claimed = signature === null ? "unsigned" : packageVersionId(signature.package.name, signature.package.version);
    const audit = { action: "package.publish", targetType: "package", target: claimed, data: { sha256, sizeBytes } };
    return auditRefusal(engineClient, caller, audit, async () => {
      // First of all, so that only archives of people who are trusted are opened.
      await this.#checkSignature(caller.identity.tenant, signature, stored);
      const archive = { provider, blobKey, sizeBytes };
      const checkElsewhere = this.#options.checkArchiveElsewhere;
      const checked = await (checkElsewhere === undefined
        ? checkStoredArchive(this.#resources.blobStoreOf(provider), archive)
        : checkElsewhere(archive));
      checkSignedManifest(checked.manifest, signature);
      return { ...checked, signature, stored };
    });
  }

  async #checkSignature(tenant: string, signature: PackageSignature | null, { sha256, sizeBytes }: StoredBlob): Promise<void> {
    if (signature !== null) {
      const problem = await this.#keys.findProblem(tenant, signature, { sha256, bytes: sizeBytes });
      if (problem !== null) throw problem;
      return;
    }
    const hasKeys = (await this.#keys.list(tenant)).items.length > 0;
    if (hasKeys || this.#options.allowsUnsignedPackages !== true)
      throw fault(
        "E.PKG.PERMISSION",
        "the package is not signed; sign it with a key that this tenant trusts (astra packages sign) and publish it with its signature",
      );
  }

  /** The version as it was published before with the same bytes; null: it is new. */
  async #findSame(caller: Caller, archive: VerifiedArchive, key: string | null): Promise<PublishedVersion | null> {
    const { manifest, signature, stored } = archive;
    const { tenant } = caller.identity;
    const { name, version } = manifest;
    const { record, rev } = await this.#records.find(tenant, packageVersionId(name, version));
    if (record === null) return null;
    const ask = this.#idempotencyKeyOf(caller, archive, key);
    const isRepeated = await registerIdempotencyKey(this.#context.engineClient, caller, ask);
    if (record.sha256 !== stored.sha256)
      throw fault("E.VERSION.EXISTS", `${name} ${version} is published with other content; publish it under another version`, {
        sha256: record.sha256,
      });
    const repeated = isRepeated && record.publishedWith === (ask?.digest ?? null);
    if (signature === null || record.signature?.ed25519 === signature.ed25519) return { record, wasThere: true, repeated };
    // Signed anew, perhaps because the first key is trusted no longer.
    const signed = { ...record, signature };
    await this.#records.write(actorOf(caller), {
      puts: [packageVersionPut(signed, rev)],
      audit: { action: "package.sign", targetType: "package", target: record.id, data: { keyId: signature.keyId } },
    });
    return { record: signed, wasThere: true, repeated };
  }

  async #planPublishing(
    caller: Caller,
    archive: VerifiedArchive,
    { provider, blobKey, keep }: BlobReservation,
    key: string | null,
  ): Promise<PlannedVersion> {
    const { reader, environment } = this.#context;
    const { tenant, user } = caller.identity;
    const { manifest, resources, signature, stored } = archive;
    const { name, version } = manifest;
    if ((await this.list(tenant, name)).items.length >= packageLimits.versionsMax)
      throw fault(
        "E.LIMIT.REACHED",
        `package ${name} has ${packageLimits.versionsMax} versions, which is the most; delete one first`,
      );
    const now = environment.clock.now();
    const ask = this.#idempotencyKeyOf(caller, archive, key);
    const record: PackageVersionRecord = {
      id: packageVersionId(name, version),
      name,
      version,
      ...stored,
      provider,
      blob: blobKey.name,
      signature,
      resources,
      status: "published",
      publishedAt: now,
      publishedBy: user,
      publishedWith: ask?.digest ?? null,
    };
    const { doc } = await readDocument(reader, tenant, packageCollection, record.id);
    const catalogued = planManifestPut(manifest, doc, now, 0);
    const puts: DocPut[] = [packageVersionPut(record, 0)];
    if (typeof catalogued === "object") puts.push(catalogued);
    return { record, puts, drops: [keep], ask };
  }

  async #write(caller: Caller, { record, ...write }: PlannedVersion): Promise<PublishedVersion> {
    const { sha256, sizeBytes, signature } = record;
    const data = { sha256, sizeBytes, ...(signature !== null && { keyId: signature.keyId }) };
    const audit = { action: "package.publish", targetType: "package", target: record.id, data };
    const { repeated } = await this.#records.write(actorOf(caller), { ...write, audit });
    // It was published with this key before and has been deleted since.
    if (repeated) throw fault("E.NOT_FOUND", `${record.name} ${record.version} was published with this key and deleted since`);
    return { record, wasThere: false, repeated: false };
  }

  #idempotencyKeyOf({ identity }: Caller, { stored, signature }: VerifiedArchive, key: string | null) {
    const request = { user: identity.user, sha256: stored.sha256, signature: signature?.ed25519 ?? null };
    return idempotencyKeyFor(this.#context.digest, key, { of: "publishPackage", ...request });
  }

  #findHolders(tenant: string, name: string) {
    return findPackageHolders(this.#context.reader, this.#context.environment, tenant, name);
  }
}

const isMismatch = (why: unknown): boolean => why instanceof Fault && why.code === "E.IDEMPOTENCY.MISMATCH";

export const notPublishedFault = (name: string): Fault =>
  fault("E.NOT_FOUND", `no version of package ${name.slice(0, 100)} is published here`);

const holdersNamedMax = 5;

function heldFault({ name, version }: PackageVersionRecord, holders: readonly PackageHolder[]): Fault {
  const named = holders.slice(0, holdersNamedMax).map((holder) => holder.name);
  const more = holders.length > named.length ? ` and ${holders.length - named.length} more` : "";
  return fault("E.CONFLICT", `${name} ${version} is held by ${named.join(", ")}${more}; uninstall it there first`, {
    workers: named,
    workerCount: holders.length,
  });
}

/** The archive, and files that were sent after it. */
const blobsOf = ({ provider, blob, resources }: PackageVersionRecord) => [
  { provider, blob },
  ...resources.flatMap(({ place }) => (place?.of === "blob" ? [place] : [])),
];

/** Two versions that differ only behind their + are in the order of their texts. */
const compareNewestFirst = (a: string, b: string): number => comparePackageVersions(b, a) || (a < b ? 1 : a > b ? -1 : 0);

function parseSignature(text: string | undefined): PackageSignature | null {
  if (text === undefined || text.trim() === "") return null;
  const json = readJson(Buffer.from(text), limits.json.request);
  const signature = json instanceof Fault ? json : readPackageSignature(json);
  if (signature instanceof Fault)
    throw fault("E.PKG.PERMISSION", `form.signature is not the signature of a package: ${signature.message}`, {
      path: "form.signature",
    });
  return signature;
}

/** The signature was checked against the bytes; now against what they say. */
function checkSignedManifest(manifest: Manifest, signature: PackageSignature | null): void {
  if (signature === null) return;
  const { name, version } = signature.package;
  if (manifest.name !== name || manifest.version !== version)
    throw fault(
      "E.PKG.PERMISSION",
      `the signature is for ${name} ${version}, the archive is ${manifest.name} ${manifest.version}`,
    );
  const { signedAt = signature.signedAt, signedBy = signature.signedBy } = manifest.signature ?? {};
  if (signedAt !== signature.signedAt || signedBy !== signature.signedBy)
    throw fault("E.PKG.INVALID", `the manifest of ${name} ${version} names another signer or instant than its signature`);
}

function presentPackageVersion(record: PackageVersionRecord, holders: readonly PackageHolder[] = []): PackageVersion {
  const { name, version, sha256, sizeBytes, signature, resources, publishedAt, publishedBy, status } = record;
  const missing = resources.filter(({ place }) => place === null).map(({ path }) => path);
  return {
    name,
    version,
    sha256,
    sizeBytes,
    signature: signature === null ? null : { keyId: signature.keyId, signedBy: signature.signedBy, signedAt: signature.signedAt },
    publishedAt: isoTime(publishedAt),
    publishedBy,
    status,
    ...(missing.length > 0 && { missingResources: missing }),
    workerCount: holders.length,
    workers: holders.slice(0, packageLimits.holdersMax),
  };
}
