// The resources of a published version: files of its archive, and files that its manifest names by their digest and that are sent after it,
// because they are too large for the archive or shared by versions.

import { readEntryContent } from "@astraflow/archive";
import { type Fault, fault, packageLimits } from "@astraflow/protocol";
import { isConflict, RecordStore, retryOnConflict } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { missingBytesFault } from "../resources/blob-store.ts";
import type { ResourceRepository } from "../resources/resource-repository.ts";
import { createBlobSource } from "./archive-check.ts";
import type { PackageRepository } from "./package-repository.ts";
import {
  type PackageResourceRecord,
  packageVersionCollection,
  packageVersionPut,
  type PackageVersionRecord,
} from "./package-store.ts";

const writeAttemptsMax = 20;

type ReceiveBytes = (store: (bytes: AsyncIterable<Uint8Array>) => Promise<unknown>) => Promise<unknown>;

export class PackageResources {
  readonly #packages: PackageRepository;
  readonly #resources: ResourceRepository;
  readonly #records: RecordStore<PackageVersionRecord>;

  constructor(context: ServiceContext, packages: PackageRepository, resources: ResourceRepository) {
    this.#packages = packages;
    this.#resources = resources;
    this.#records = new RecordStore(context, packageVersionCollection);
  }

  /** The file at this path of the package, or of its folder resources. */
  async open(tenant: string, name: string, version: string, path: string) {
    const { record } = await this.#packages.find(tenant, name, version);
    const resource = findResource(record, path);
    const { place, sizeBytes, sha256 } = resource;
    if (place === null) throw unknownResource(record, path);
    const { provider, blob } = place.of === "blob" ? place : record;
    const blobs = this.#resources.blobStoreOf(provider);
    const blobKey = { tenant, name: blob };
    // Now, while the answer can still be an error: the bytes follow after its head.
    if ((await blobs.stat(blobKey)) === null) throw missingBytesFault();
    const read = (): AsyncIterable<Uint8Array> =>
      place.of === "blob"
        ? blobs.read(blobKey)
        : readEntryContent(createBlobSource(blobs, blobKey, record.sizeBytes), place.entry);
    return { path: resource.path, sizeBytes, sha256, read };
  }

  /** Stores a file that the manifest names without an address and that is not in the archive. What is there already stays. */
  async put(
    caller: Caller,
    of: { name: string; version: string; path: string },
    receive: ReceiveBytes,
  ): Promise<PackageVersionRecord> {
    const { tenant } = caller.identity;
    const { record } = await this.#packages.find(tenant, of.name, of.version);
    const wanted = findResource(record, of.path);
    if (wanted.place?.of === "archive")
      throw fault("E.CONFLICT", `${wanted.path} is in the archive of ${of.name} ${of.version}, which does not change`);
    if (wanted.place !== null) return record;
    const actor = actorOf(caller);
    const reservation = await this.#resources.reserveBlob(actor);
    let isWriting = false;
    try {
      const sizeBytes = await this.#receive(reservation, wanted, receive);
      const place = { of: "blob", provider: reservation.provider, blob: reservation.blobKey.name } as const;
      const written = await retryOnConflict(writeAttemptsMax, async () => {
        isWriting = false;
        const { record: now, rev } = await this.#packages.find(tenant, of.name, of.version);
        if (findResource(now, of.path).place !== null) return now;
        const filled = withResource(now, { ...wanted, sizeBytes, place });
        isWriting = true;
        await this.#records.write(actor, {
          puts: [packageVersionPut(filled, rev)],
          drops: [reservation.keep],
          audit: { action: "package.resource", targetType: "package", target: now.id, data: { path: wanted.path, sizeBytes } },
        });
        return filled;
      });
      const isOurs = written.resources.some((one) => one.place?.of === "blob" && one.place.blob === place.blob);
      if (!isOurs) await reservation.release();
      return written;
    } catch (why) {
      // If it is unknown whether it was written, the sweep finds out.
      if (!isWriting || isConflict(why)) await reservation.release();
      throw why;
    }
  }

  async #receive(
    { provider, blobKey }: Awaited<ReturnType<ResourceRepository["reserveBlob"]>>,
    { path, sha256 }: PackageResourceRecord,
    receive: ReceiveBytes,
  ): Promise<number> {
    const blobs = this.#resources.blobStoreOf(provider);
    let received = { sizeBytes: 0, sha256: "" };
    await receive(async (bytes) => {
      received = await blobs.write(blobKey, bytes, packageLimits.archiveBytesMax);
    });
    if (received.sha256 !== sha256)
      throw fault("E.RESOURCE.DIGEST", `the bytes of ${path} do not have the SHA-256 that the manifest states`, {
        sha256: received.sha256,
      });
    return received.sizeBytes;
  }
}

function findResource(record: PackageVersionRecord, path: string): PackageResourceRecord {
  const found =
    record.resources.find((one) => one.path === path) ?? record.resources.find((one) => one.path === `resources/${path}`);
  if (found === undefined) throw unknownResource(record, path);
  return found;
}

const withResource = (record: PackageVersionRecord, resource: PackageResourceRecord): PackageVersionRecord => ({
  ...record,
  resources: record.resources.map((one) => (one.path === resource.path ? resource : one)),
});

const unknownResource = ({ name, version }: PackageVersionRecord, path: string): Fault =>
  fault("E.NOT_FOUND", `${name} ${version} has no resource ${path.slice(0, 200)} here`);
