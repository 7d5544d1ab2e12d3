// Installs and removes one version of a package, step by step. Whatever fails, nothing of the version is left; at whatever step the process
// is killed, the version is complete or absent.

import { mkdir, readFile, rename, rm, stat } from "node:fs/promises";
import type { LookupFunction } from "node:net";
import path from "node:path";
import {
  checkContentDigest,
  comparePackageVersions,
  createFolderTarget,
  findSignatureProblem,
  type PackageArchive,
  readPackageArchive,
  readPublicKey,
  type TrustedKey,
  unpackArchive,
  withFileSource,
} from "@astraflow/archive";
import {
  Fault,
  fault,
  isRecord,
  type Manifest,
  type PkgInstallPayload,
  packageSignatureFormat,
  readManifest,
} from "@astraflow/protocol";
import { probeAdapters } from "./adapter-probe.ts";
import { checkPythonVersion, installNodeDependencies, installPythonDependencies, type ToolContext } from "./dependencies.ts";
import type { HookSandbox } from "./hook-sandbox.ts";
import { checkHooksAllowed, mayRunHooks, runHooks } from "./hooks.ts";
import {
  type InstallFailpoint,
  type InstallSettings,
  type InstallStage,
  installStages,
  uninstallStages,
} from "./install-settings.ts";
import type { ProcessGroupListener } from "./limited-process.ts";
import { type DownloadedFile, downloadFile } from "./package-download.ts";
import { readRepositoryKeys } from "./trusted-keys.ts";
import { findNameFault, VersionFolders } from "./version-folders.ts";

/** A hundred keys with a hundred names each. */
const keysBytesMax = 4 * 1024 * 1024;

export interface InstallPorts {
  /** A name for the staging folder, different each time. */
  readonly stagingId: string;
  /** The time of day, for the receipt. */
  readonly installedAt: string;
  /** A stage begins, or goes on; `progress` of the whole, from 0 to 1. */
  stageReached(stage: InstallStage, progress: number): void;
  readonly authorization?: { readonly origin: string; readonly value: string };
  readonly groups?: ProcessGroupListener;
  /** For tests. */
  readonly failpoint?: (name: InstallFailpoint) => Promise<void>;
  readonly lookup?: LookupFunction;
}

export interface InstallOutcome {
  readonly details: Readonly<Record<string, unknown>>;
}

export class PackageInstaller {
  readonly #settings: InstallSettings;
  readonly #ports: InstallPorts;
  readonly #folders: VersionFolders;

  constructor(settings: InstallSettings, ports: InstallPorts) {
    this.#settings = settings;
    this.#ports = ports;
    this.#folders = new VersionFolders(settings.packagesDir, async (name) => ports.failpoint?.(name));
  }

  /** Throws a Fault that says why the version is not installed. */
  async install(request: PkgInstallPayload): Promise<InstallOutcome> {
    const { name, version } = request;
    const problem = findNameFault(name, version);
    if (problem !== null) throw problem;
    if (await this.#folders.isInstalled(name, version)) return this.#acceptInstalled(request);
    await this.#checkNotOlder(request);
    const staging = await this.#folders.createStaging(this.#ports.stagingId);
    try {
      return await this.#installInto(staging, request);
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  }

  /** The caller has seen to it that no attempt uses the version. */
  async uninstall(name: string, version: string): Promise<InstallOutcome> {
    const problem = findNameFault(name, version);
    if (problem !== null) throw problem;
    const folder = this.#folders.folderOf(name, version);
    if (!(await this.#folders.isInstalled(name, version))) return { details: { wasInstalled: false } };
    await this.#reach("hooks", uninstallStages);
    const hooks = await this.#runUninstallHooks(folder);
    await this.#reach("remove", uninstallStages);
    await this.#folders.remove(name, version, this.#ports.stagingId);
    return { details: { ...hooks } };
  }

  /** Sent again, perhaps after a crash: the same archive is fine, another one is not. */
  async #acceptInstalled({ name, version, sha256 }: PkgInstallPayload): Promise<InstallOutcome> {
    const receipt = await this.#folders.readReceipt(name, version);
    if (sha256 === undefined || receipt?.sha256 === sha256.toLowerCase()) return { details: { wasInstalled: true } };
    throw fault(
      "E.PKG.INVALID",
      `${name} ${version} is installed with other content; uninstall it first, or publish another version`,
    );
  }

  async #checkNotOlder({ name, version, allow_older }: PkgInstallPayload): Promise<void> {
    const highest = await this.#folders.readHighestVersion(name);
    if (highest === null || allow_older === true || comparePackageVersions(version, highest) >= 0) return;
    throw fault(
      "E.PKG.PERMISSION",
      `${name} ${version} is older than ${highest}, which this worker had; an operator has to allow the older version`,
    );
  }

  async #installInto(staging: string, request: PkgInstallPayload): Promise<InstallOutcome> {
    const { name, version } = request;
    const archiveFile = path.join(staging, "package.cwx");
    const folder = path.join(staging, "package");
    await this.#reach("download");
    const downloaded = await this.#download(request, archiveFile);
    await this.#reach("verify");
    const signature = await this.#checkSignature(request, downloaded, staging);
    const manifest = await withFileSource(archiveFile, async (source) => {
      const signal = AbortSignal.timeout(this.#settings.limits.unpackMsMax);
      const archive = await readPackageArchive(source, { signal });
      this.#checkArchive(request, archive);
      await checkContentDigest(source, archive, signal);
      await checkPythonVersion(archive.manifest, this.#tools(staging));
      await this.#reach("unpack");
      await unpackArchive(source, archive.entries, createFolderTarget(folder), { signal });
      return archive.manifest;
    });
    await this.#reach("dependencies");
    await installPythonDependencies(manifest, this.#tools(folder));
    await installNodeDependencies(manifest, this.#tools(folder));
    await this.#reach("resources");
    await this.#fetchResources(manifest, folder, staging);
    await this.#reach("hooks");
    const sandbox = await runHooks("install", manifest, this.#tools(folder));
    await this.#reach("load");
    await probeAdapters(folder, manifest, this.#settings.hosting, this.#ports.groups);
    await this.#reach("publish");
    const installedAt = this.#ports.installedAt;
    await this.#folders.publish(folder, { name, version, sha256: downloaded.sha256, ...signature, installedAt });
    return { details: { sha256: downloaded.sha256, ...signature, ...(sandbox !== null && { sandbox }) } };
  }

  async #reach(stage: InstallStage, stages: readonly InstallStage[] = installStages): Promise<void> {
    this.#ports.stageReached(stage, stages.indexOf(stage) / stages.length);
    await this.#ports.failpoint?.(`before ${stage}`);
  }

  #tools(folder: string): ToolContext {
    const { groups } = this.#ports;
    return { folder, settings: this.#settings, ...(groups && { groups }) };
  }

  async #download({ url, sha256, name, version }: PkgInstallPayload, file: string): Promise<DownloadedFile> {
    const address = url ?? this.#repositoryAddress(name, version, "archive");
    if (address === null) throw fault("E.PKG.INVALID", `the command to install ${name} ${version} names no address`);
    const downloaded = await downloadFile(address, file, this.#downloadOptions(true));
    if (sha256 !== undefined && downloaded.sha256 !== sha256.toLowerCase())
      throw fault(
        "E.PKG.INVALID",
        `the archive of ${name} ${version} has the SHA-256 ${downloaded.sha256}, not ${sha256.toLowerCase()}`,
      );
    return downloaded;
  }

  #repositoryAddress(name: string, version: string, place: string): string | null {
    const { repositoryUrl } = this.#settings;
    const path = [name, version, ...place.split("/")].map(encodeURIComponent).join("/");
    return repositoryUrl === null ? null : `${repositoryUrl}/${path}`;
  }

  #downloadOptions(isPackage: boolean) {
    const { allowedOrigins, limits } = this.#settings;
    const { authorization, lookup } = this.#ports;
    let quarter = 0;
    const progress = (bytes: number, total: number | null) => {
      const reached = total === null || total === 0 ? 0 : Math.floor((bytes / total) * 4);
      if (!isPackage || reached <= quarter || reached >= 4) return;
      quarter = reached;
      this.#ports.stageReached("download", reached / 4 / installStages.length);
    };
    return { allowedOrigins, limits, progress, ...(authorization && { authorization }), ...(lookup && { lookup }) };
  }

  /** Who signed it, for the receipt. */
  async #checkSignature(
    request: PkgInstallPayload,
    { sha256, bytes }: DownloadedFile,
    staging: string,
  ): Promise<{ readonly signedBy?: string; readonly keyId?: string }> {
    const { name, version, signature } = request;
    const { tenant, allowsUnsigned } = this.#settings;
    if (signature === undefined) {
      if (allowsUnsigned) return {};
      throw fault("E.PKG.PERMISSION", `${name} ${version} is not signed; this worker installs signed packages only`);
    }
    const { key_id: keyId, ed25519, signed_at: signedAt = "", signed_by: signedBy = "" } = signature;
    const document = {
      format: packageSignatureFormat,
      package: { name, version },
      tenant: signature.tenant ?? tenant,
      sha256,
      bytes,
      signedAt,
      signedBy,
      keyId,
      ed25519,
    } as const;
    const keys = await this.#readTrustedKeys(staging);
    const problem = findSignatureProblem(document, { name, version, tenant, sha256, bytes }, keys);
    if (problem !== null) throw problem;
    return { signedBy, keyId };
  }

  async #readTrustedKeys(staging: string): Promise<TrustedKey[]> {
    const { trustedKeys, trustsRepository } = this.#settings;
    const listed = trustsRepository ? await this.#fetchRepositoryKeys(staging) : [];
    return [...trustedKeys, ...listed].map(({ publicKey, packages }) => {
      const key = readPublicKey(publicKey);
      if (key instanceof Fault) throw key;
      return packages === undefined ? key : { ...key, packages };
    });
  }

  /** Asked each time, so that a key which the tenant trusts no longer is not trusted here either. */
  async #fetchRepositoryKeys(staging: string): Promise<InstallSettings["trustedKeys"]> {
    const { repositoryKeysUrl: url } = this.#settings;
    if (url === null) throw fault("E.PKG.PERMISSION", "this worker trusts the keys of a repository, but knows none");
    const file = path.join(staging, "keys.json");
    const limits = { ...this.#settings.limits, downloadBytesMax: keysBytesMax };
    await downloadFile(url, file, { ...this.#downloadOptions(false), limits });
    const keys = readRepositoryKeys(await readFile(file, "utf8"));
    if (keys instanceof Fault) throw keys;
    return keys;
  }

  #checkArchive({ name, version, signature }: PkgInstallPayload, { manifest, entries }: PackageArchive): void {
    if (manifest.name !== name || manifest.version !== version)
      throw fault("E.PKG.INVALID", `the archive holds ${manifest.name} ${manifest.version}, not ${name} ${version}`);
    const own = entries.find((entry) => entry.name.startsWith("."));
    if (own !== undefined)
      throw fault("E.PKG.INVALID", `entry "${own.name}" has a name that is the installer's own: it begins with a dot`, {
        entry: own.name,
      });
    const stated = manifest.signature;
    const isOther = (claim: string | undefined, said: string | undefined) =>
      claim !== undefined && said !== undefined && claim !== said;
    if (
      signature !== undefined &&
      (isOther(stated?.signedAt, signature.signed_at) || isOther(stated?.signedBy, signature.signed_by))
    )
      throw fault("E.PKG.INVALID", `the manifest of ${name} ${version} names another signer or instant than its signature`);
    checkHooksAllowed(manifest, this.#settings);
  }

  /** Resources that are not in the archive come from their address, else from the repository. */
  async #fetchResources(manifest: Manifest, folder: string, staging: string): Promise<void> {
    for (const [index, { path: place, url, sha256 }] of manifest.resources.entries()) {
      const target = path.join(folder, ...place.split("/"));
      if (await exists(target)) continue;
      const address = url ?? this.#repositoryAddress(manifest.name, manifest.version, `resources/${place}`);
      if (address === null) throw fault("E.PKG.INVALID", `resource ${place} has no address, and this worker knows no repository`);
      if (sha256 === undefined)
        throw fault("E.PKG.INVALID", `resource ${place} is fetched from elsewhere and needs its SHA-256 in the manifest`);
      const file = path.join(staging, `resource-${index}`);
      const fetched = await downloadFile(address, file, this.#downloadOptions(false));
      if (fetched.sha256 !== sha256.toLowerCase())
        throw fault("E.PKG.INVALID", `resource ${place} has the SHA-256 ${fetched.sha256}, not ${sha256.toLowerCase()}`);
      await mkdir(path.dirname(target), { recursive: true });
      await rename(file, target);
    }
  }

  /** An uninstall is carried out whether its hooks may run or not; the event says which. */
  async #runUninstallHooks(folder: string): Promise<{ readonly hooks?: string; readonly sandbox?: HookSandbox }> {
    const manifestJson: unknown = JSON.parse(await readFile(path.join(folder, "manifest.json"), "utf8"));
    const manifest = isRecord(manifestJson)
      ? readManifest(manifestJson)
      : fault("E.MANIFEST.INVALID", "the manifest is not an object");
    if (manifest instanceof Fault || manifest.hooks.uninstall.length === 0) return {};
    if (!mayRunHooks(manifest.name, this.#settings)) return { hooks: `not run: hooks of ${manifest.name} are not allowed here` };
    const sandbox = await runHooks("uninstall", manifest, this.#tools(folder));
    return { hooks: "run", ...(sandbox !== null && { sandbox }) };
  }
}

async function exists(file: string): Promise<boolean> {
  try {
    await stat(file);
    return true;
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw thrown;
  }
}
