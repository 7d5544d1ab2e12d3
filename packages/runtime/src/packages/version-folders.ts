// Installed versions on disk: `<packagesDir>/<name>/<version>`, complete or absent at every instant. What is being made or removed lies in
// `.staging`, which is emptied at start; what must survive a version (the highest one ever installed) lies in `.state`.

import { constants } from "node:fs";
import { mkdir, open, readdir, readFile, rename, rm, rmdir, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { comparePackageVersions } from "@astraflow/archive";
import { type Fault, fault, isRecord } from "@astraflow/protocol";

/** Written into the folder of a version; what it was made of. */
export interface InstallReceipt {
  readonly name: string;
  readonly version: string;
  readonly sha256: string;
  readonly signedBy?: string;
  readonly keyId?: string;
  readonly installedAt: string;
}

const receiptName = ".install.json";
const namePattern = /^[a-z0-9]+([._-][a-z0-9]+)*$/;
const versionPattern = /^[0-9]+\.[0-9]+\.[0-9]+(?:[-+][0-9A-Za-z.-]+)?$/;

/** Null: both may be names of folders. */
export function findNameFault(name: string, version: string): Fault | null {
  if (!namePattern.test(name) || name.length > 128)
    return fault("E.PKG.INVALID", `"${name.slice(0, 128)}" is not a name of a package`);
  if (!versionPattern.test(version) || version.length > 64)
    return fault("E.PKG.INVALID", `"${version.slice(0, 64)}" is not a version of a package`);
  return null;
}

export class VersionFolders {
  readonly #root: string;
  readonly #failpoint: (name: "before rename" | "after rename" | "after removal rename") => Promise<void>;

  constructor(
    root: string,
    failpoint: (name: "before rename" | "after rename" | "after removal rename") => Promise<void> = async () => {},
  ) {
    this.#root = root;
    this.#failpoint = failpoint;
  }

  folderOf(name: string, version: string): string {
    return path.join(this.#root, name, version);
  }

  /** Removes what an earlier process left unfinished. Only while nothing is being installed. */
  async removeLeftovers(): Promise<void> {
    await rm(path.join(this.#root, ".staging"), { recursive: true, force: true });
  }

  /** A new, empty folder in which one version is made. */
  async createStaging(id: string): Promise<string> {
    const folder = path.join(this.#root, ".staging", id);
    await mkdir(folder, { recursive: true });
    return folder;
  }

  async listVersions(name: string): Promise<string[]> {
    const entries = await readFolder(path.join(this.#root, name));
    return entries.filter((entry) => versionPattern.test(entry)).sort(comparePackageVersions);
  }

  async readReceipt(name: string, version: string): Promise<InstallReceipt | null> {
    const text = await readIfExists(path.join(this.folderOf(name, version), receiptName));
    if (text === null) return null;
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? (value as unknown as InstallReceipt) : null;
  }

  async isInstalled(name: string, version: string): Promise<boolean> {
    return (await readIfExists(path.join(this.folderOf(name, version), "manifest.json"))) !== null;
  }

  /** The highest version that was ever installed here, whether it still is or not. */
  async readHighestVersion(name: string): Promise<string | null> {
    return readIfExists(path.join(this.#root, ".state", `${name}.highest`));
  }

  async recordVersion(name: string, version: string): Promise<void> {
    const highest = await this.readHighestVersion(name);
    if (highest !== null && comparePackageVersions(highest, version) >= 0) return;
    const folder = path.join(this.#root, ".state");
    await mkdir(folder, { recursive: true });
    await replaceFile(path.join(folder, `${name}.highest`), version);
  }

  /** Makes a staged folder the version. Everything in it is on disk before its name is, and its name when this resolves. */
  async publish(staged: string, receipt: InstallReceipt): Promise<void> {
    const { name, version } = receipt;
    await writeFile(path.join(staged, receiptName), JSON.stringify(receipt), { flag: "wx" });
    await syncTree(staged);
    const parent = path.join(this.#root, name);
    await mkdir(parent, { recursive: true });
    await syncFolder(this.#root);
    await this.#failpoint("before rename");
    await rename(staged, this.folderOf(name, version));
    await this.#failpoint("after rename");
    await syncFolder(parent);
    await this.recordVersion(name, version);
  }

  /** Takes a version away as a whole, then removes its files. */
  async remove(name: string, version: string, stagingId: string): Promise<void> {
    const staging = await this.createStaging(stagingId);
    await rename(this.folderOf(name, version), path.join(staging, "removed"));
    await this.#failpoint("after removal rename");
    const parent = path.join(this.#root, name);
    await syncFolder(parent);
    await rm(staging, { recursive: true, force: true });
    if ((await readFolder(parent)).length === 0) await rmdir(parent);
  }
}

async function readFolder(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw thrown;
  }
}

async function readIfExists(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return null;
    throw thrown;
  }
}

/** The file has the old content or the new one, and the new one once this resolves. */
export async function replaceFile(file: string, content: string): Promise<void> {
  const fresh = `${file}.new`;
  const handle = await open(fresh, "w", 0o600);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(fresh, file);
  await syncFolder(path.dirname(file));
}

export async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Files that pip, npm or a hook wrote are not synced yet. Links are left alone: their names are on disk with their folder. */
async function syncTree(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const name = path.join(folder, entry.name);
    if (entry.isDirectory()) await syncTree(name);
    else if (entry.isFile()) await syncFile(name);
  }
  await syncFolder(folder);
}

async function syncFile(file: string): Promise<void> {
  const { mode } = await stat(file);
  // A file that may not even be read by its owner cannot be part of a package.
  if ((mode & 0o400) === 0) throw fault("E.PKG.INVALID", `${path.basename(file)} cannot be read`);
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
