// The public keys whose signatures of packages a tenant trusts.

import { findSignatureProblem, readPublicKey, type TrustedKey } from "@astraflow/archive";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, type PackageKey, type PackageKeyRequest, type PackageSignature, packageLimits } from "@astraflow/protocol";
import { idempotencyKeyFor, notFound, RecordStore, registerIdempotencyKey } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { actorOf, type Caller } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { packageKeyCollection, type PackageKeyRecord, packageKeyPut } from "./package-store.ts";

export class PackageKeys {
  readonly #context: ServiceContext;
  readonly #records: RecordStore<PackageKeyRecord>;

  constructor(context: ServiceContext) {
    this.#context = context;
    this.#records = new RecordStore(context, packageKeyCollection);
  }

  /** All of a tenant. Requests at the same time may add a few more than are allowed, which are listed too. */
  async list(tenant: string): Promise<{ readonly items: readonly PackageKeyRecord[]; readonly head: number }> {
    const { items, head } = await this.#records.list({ tenant, limit: 2 * packageLimits.keysMax });
    return { items: items.map(({ record }) => record), head };
  }

  /** Throws E.NOT_FOUND where the tenant does not trust it. */
  async find(tenant: string, id: string) {
    const { record, rev, head } = await this.#records.find(tenant, id);
    if (record === null) throw notFound("package key", id);
    return { record, rev, head };
  }

  /** `repeated`: it was trusted before, in the same way. */
  async add(caller: Caller, wanted: PackageKeyRequest, key: string | null) {
    const { engineClient, environment, digest } = this.#context;
    const { tenant, user } = caller.identity;
    const publicKey = readPublicKey(wanted.publicKey);
    if (publicKey instanceof Fault)
      throw fault("E.REQUEST.INVALID", `body.publicKey cannot be used: ${publicKey.message}`, { path: "body.publicKey" });
    const record: PackageKeyRecord = {
      id: publicKey.id,
      publicKey: publicKey.key.export({ format: "pem", type: "spki" }) as string,
      name: wanted.name,
      packages: wanted.packages ?? null,
      createdAt: environment.clock.now(),
      createdBy: user,
    };
    const ask = idempotencyKeyFor(digest, key, { of: "addPackageKey", user, wanted });
    const { record: before, head } = await this.#records.find(tenant, record.id);
    if (before !== null) {
      const repeated = await registerIdempotencyKey(engineClient, caller, ask);
      if (!repeated && !isSameTrust(before, record))
        throw fault("E.CONFLICT", `key ${record.id} is trusted already, as "${before.name}"; delete it to trust it anew`, {
          keyId: record.id,
        });
      return { record: before, head, repeated: true };
    }
    if ((await this.list(tenant)).items.length >= packageLimits.keysMax)
      throw fault("E.LIMIT.REACHED", `the tenant trusts ${packageLimits.keysMax} keys, which is the most; delete one first`);
    const { repeated } = await this.#records.write(actorOf(caller), {
      puts: [packageKeyPut(record, 0)],
      audit: { action: "package-key.add", targetType: "package-key", target: record.id, data: { name: record.name } },
      ask,
    });
    // It was added with this key before and has been deleted since.
    if (repeated) throw notFound("package key", record.id);
    return { record, head: (await this.#records.find(tenant, record.id)).head, repeated: false };
  }

  async delete(caller: Caller, id: string): Promise<void> {
    const { record, rev } = await this.find(caller.identity.tenant, id);
    await this.#records.write(actorOf(caller), {
      drops: [{ collection: packageKeyCollection, name: id, rev }],
      audit: { action: "package-key.delete", targetType: "package-key", target: id, data: { name: record.name } },
    });
  }

  async readTrustedKeys(tenant: string): Promise<TrustedKey[]> {
    const { items } = await this.list(tenant);
    return items.flatMap(({ publicKey, packages }) => {
      const key = readPublicKey(publicKey);
      // Keys are checked before they are stored.
      if (key instanceof Fault) return [];
      return [packages === null ? key : { ...key, packages }];
    });
  }

  /** Null: a key that the tenant trusts has signed exactly these bytes, for the package and version that the signature names. */
  async findProblem(tenant: string, signature: PackageSignature, archive: { sha256: string; bytes: number }) {
    const { name, version } = signature.package;
    return findSignatureProblem(signature, { ...archive, name, version, tenant }, await this.readTrustedKeys(tenant));
  }
}

const isSameTrust = (a: PackageKeyRecord, b: PackageKeyRecord): boolean =>
  canonicalJson([a.name, a.packages]) === canonicalJson([b.name, b.packages]);

export const presentPackageKey = ({ id, publicKey, name, packages, createdAt, createdBy }: PackageKeyRecord): PackageKey => ({
  keyId: id,
  publicKey,
  name,
  ...(packages !== null && { packages: [...packages] }),
  createdAt: isoTime(createdAt),
  createdBy,
});
