// Watches the folder of packages for authors who work on them: every save loads the package again. Packages may be links to folders elsewhere.

import { type FSWatcher, readdirSync, realpathSync, watch } from "node:fs";
import path from "node:path";
import { errorMessage } from "@astraflow/protocol";
import { isFileMissing, type LoadedPackagesSummary, madeFolders } from "@astraflow/runtime";
import type { Logger } from "pino";

/** Editors write a file in several steps, and save several files at once. */
const quietMs = 100;

export interface PackageWatchOptions {
  readonly packagesDir: string;
  readonly log: Logger;
  loadedPackages(): LoadedPackagesSummary;
  reload(): Promise<LoadedPackagesSummary>;
}

export class PackageWatch {
  readonly #options: PackageWatchOptions;
  readonly #watchers = new Map<string, FSWatcher>();
  #timer: NodeJS.Timeout | undefined;
  #isReloading = false;
  #isClosed = false;

  constructor(options: PackageWatchOptions) {
    this.#options = options;
    this.#watchFolders();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers.values()) watcher.close();
    this.#watchers.clear();
  }

  #watchFolders(): void {
    const folders = new Set(listFolders(this.#options.packagesDir));
    for (const [folder, watcher] of this.#watchers) if (!folders.has(folder)) this.#unwatch(folder, watcher);
    for (const folder of folders) if (!this.#watchers.has(folder)) this.#watchFolder(folder);
  }

  #watchFolder(folder: string): void {
    try {
      const watcher = watch(folder, () => this.#scheduleReload());
      // Its folder was removed; what is there now is found at the next look.
      watcher.on("error", () => (this.#unwatch(folder, watcher), this.#scheduleReload()));
      this.#watchers.set(folder, watcher);
    } catch (thrown) {
      const { log } = this.#options;
      if (!isFileMissing(thrown))
        log.error({ event: "watch", dir: folder }, `${folder} cannot be watched: ${errorMessage(thrown)}`);
    }
  }

  #unwatch(folder: string, watcher: FSWatcher): void {
    watcher.close();
    this.#watchers.delete(folder);
  }

  /** Once nothing has changed for a moment. */
  #scheduleReload(): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#reload(), quietMs);
  }

  async #reload(): Promise<void> {
    if (this.#isReloading) return this.#scheduleReload();
    this.#isReloading = true;
    try {
      // Before the files are read: what changes from here on is reported.
      this.#watchFolders();
      // A copy: the packages of the worker are those of now.
      const { packages, problems } = this.#options.loadedPackages();
      this.#report({ packages, problems }, await this.#options.reload());
    } catch (thrown) {
      this.#options.log.error({ event: "watch" }, `the packages could not be loaded again: ${errorMessage(thrown)}`);
    } finally {
      this.#isReloading = false;
    }
  }

  #report(before: LoadedPackagesSummary, after: LoadedPackagesSummary): void {
    const offered = describe(subtract(after, before));
    const removed = describe(before.packages.filter(({ dir }) => after.packages.every((one) => one.dir !== dir)));
    const problems = after.problems.length;
    const isBroken = (dir: string): boolean => after.problems.some((one) => one.dir === dir);
    const kept = describe(after.packages.filter(({ dir }) => isBroken(dir))).filter((name) => !offered.includes(name));
    if (offered.length + removed.length + problems === 0) return;
    const parts = [
      ...(offered.length > 0 ? [`offered with new code: ${offered.join(", ")}`] : []),
      ...(removed.length > 0 ? [`no longer offered: ${removed.join(", ")}`] : []),
      ...(kept.length > 0 ? [`broken, so with the code before: ${kept.join(", ")}`] : []),
      ...(problems > 0 ? [`${problems} ${problems === 1 ? "problem" : "problems"}`] : []),
    ];
    this.#options.log.info({ event: "reloaded", offered, removed, kept, problems }, parts.join("; "));
  }
}

const subtract = (after: LoadedPackagesSummary, before: LoadedPackagesSummary) =>
  after.packages.filter(({ dir, identity }) => before.packages.every((one) => one.dir !== dir || one.identity !== identity));

const describe = (packages: LoadedPackagesSummary["packages"]): string[] =>
  packages.map(({ name, version }) => `${name} ${version}`);

/** The root, the packages in it, one or two levels below and possibly links, and the folders of each that an author writes. */
function listFolders(root: string): string[] {
  const found: string[] = [];
  const visit = (folder: string, depth: number): void => {
    found.push(folder);
    for (const entry of readFolder(folder)) {
      if (madeFolders.has(entry.name)) continue;
      const place = path.join(folder, entry.name);
      if (entry.isDirectory()) visit(place, depth + 1);
      else if (entry.isSymbolicLink() && depth < 2) visitLink(place, depth + 1);
    }
  };
  const visitLink = (link: string, depth: number): void => {
    const target = resolveLink(link);
    if (target !== null) visit(target, depth);
  };
  visit(root, 0);
  return found;
}

function readFolder(folder: string) {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch (thrown) {
    // It went meanwhile, or is a file.
    if (isFileMissing(thrown) || (thrown as NodeJS.ErrnoException).code === "ENOTDIR") return [];
    throw thrown;
  }
}

function resolveLink(link: string): string | null {
  try {
    return realpathSync(link);
  } catch (thrown) {
    if (isFileMissing(thrown)) return null;
    throw thrown;
  }
}
