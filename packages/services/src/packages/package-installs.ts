// What the repository knows of a version that a worker is told to install: which bytes, signed by whom, and where they are.

import type { PackageCommand, PackageSignatureClaim } from "@astraflow/engine";
import { fault, omitUndefined, type PackageSignature } from "@astraflow/protocol";
import type { PackageKeys } from "./package-keys.ts";
import type { PackageRepository } from "./package-repository.ts";
import type { PackageVersionRecord } from "./package-store.ts";

export type InstallOrder = Extract<PackageCommand, { type: "pkg.install" }>;

export interface WantedInstall {
  readonly name: string;
  /** Undefined: the newest that is neither a pre-release nor withdrawn. */
  readonly version: string | undefined;
  readonly sha256?: string | undefined;
  readonly allowOlder?: boolean | undefined;
}

export interface PackageInstallsOptions {
  /** Where workers reach this scheduler, without a slash at its end; absent: those of our own know it. */
  readonly publicUrl?: string;
}

export class PackageInstalls {
  readonly #packages: PackageRepository;
  readonly #keys: PackageKeys;
  readonly #publicUrl: string | undefined;

  constructor(packages: PackageRepository, keys: PackageKeys, { publicUrl }: PackageInstallsOptions) {
    this.#packages = packages;
    this.#keys = keys;
    this.#publicUrl = publicUrl;
  }

  /** The named version, else the newest that is offered; null: it is not published here. */
  async choose(tenant: string, { name, version }: WantedInstall): Promise<PackageVersionRecord | null> {
    const { items } = await this.#packages.list(tenant, name);
    const offered = items.filter(({ status }) => status === "published");
    const chosen =
      version === undefined
        ? (offered.find((record) => !isPreRelease(record.version)) ?? offered[0])
        : items.find((record) => record.version === version);
    return chosen ?? null;
  }

  /** Throws if the version is not published here, or signed by a key that is trusted no longer. */
  async plan(tenant: string, wanted: WantedInstall): Promise<InstallOrder> {
    const record = (await this.choose(tenant, wanted)) ?? notPublished(wanted);
    const { name, version, sha256, signature } = record;
    if (wanted.sha256 !== undefined && wanted.sha256.toLowerCase() !== sha256)
      throw fault("E.PKG.INVALID", `${name} ${version} is published with the SHA-256 ${sha256}, not with body.sha256`, {
        path: "body.sha256",
      });
    await this.checkTrust(tenant, record);
    return {
      type: "pkg.install",
      name,
      version,
      sha256,
      ...(signature !== null && { signature: toSignatureClaim(signature) }),
      ...(wanted.allowOlder === true && { allowOlder: true }),
      ...omitUndefined({ url: this.#archiveUrl(record) }),
      fromRepository: true,
    };
  }

  /** Keys may have been deleted, or added, since it was published. */
  async checkTrust(tenant: string, { name, version, signature, sha256, sizeBytes }: PackageVersionRecord): Promise<void> {
    if (signature !== null) {
      const problem = await this.#keys.findProblem(tenant, signature, { sha256, bytes: sizeBytes });
      if (problem !== null) throw problem;
    } else if ((await this.#keys.list(tenant)).items.length > 0)
      throw fault(
        "E.PKG.PERMISSION",
        `${name} ${version} is not signed, and this tenant trusts keys by now; publish it again with a signature`,
      );
  }

  #archiveUrl({ name, version }: PackageVersionRecord): string | undefined {
    if (this.#publicUrl === undefined) return undefined;
    return `${this.#publicUrl}/api/v1/packages/${encodeURIComponent(name)}/${encodeURIComponent(version)}/archive`;
  }
}

function notPublished({ name, version }: WantedInstall): never {
  const missing = version === undefined ? `no version of ${name} is` : `${name} ${version} is not`;
  throw fault(
    "E.REQUEST.INVALID",
    `body.url is missing, and ${missing} published here; publish it, or name the https address of its archive`,
    { path: "body.url" },
  );
}

export const isPreRelease = (version: string): boolean => /^[^+]*-/.test(version);

export const toSignatureClaim = ({ keyId, ed25519, signedAt, signedBy, tenant }: PackageSignature): PackageSignatureClaim => ({
  keyId,
  ed25519,
  signedAt,
  signedBy,
  tenant,
});
