// The packages of a worker: found on disk, read, offered; again whenever they change. A bad one is reported and left out; it never
// stops the others.

import path from "node:path";
import { findManifestProblems } from "@astraflow/archive";
import {
  errorMessage,
  Fault,
  fault,
  type JsonObject,
  type Manifest,
  type RegisterPayload,
  readManifest,
} from "@astraflow/protocol";
import { HandlerRegistry, type RegisteredHandler } from "./handler.ts";
import { type FoundHandlers, isForNode, loadNodeHandlers } from "./node-handlers.ts";
import { findPackageDirs, identifyPackage, identifyPackageFiles, manifestName, readManifestFile } from "./package-files.ts";
import { VendorFrameHub } from "./vendor-frames.ts";

/** One package without its code. */
interface LoadedPackage {
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  /** The manifest as it was written: the register frame carries it. */
  readonly manifestJson: JsonObject;
  readonly nodeTypes: readonly string[];
  /** Of its files when they were loaded: a reload that replaced the package changes it. Absent or null: unknown. */
  readonly identity?: string | null;
}

/** A package that is not offered, or a node of it that cannot be run, and why. */
interface PackageProblem {
  readonly dir: string;
  readonly code: string;
  readonly message: string;
}

export interface LoadedPackagesSummary {
  readonly packages: readonly LoadedPackage[];
  readonly problems: readonly PackageProblem[];
}

export interface LoadedPackages extends LoadedPackagesSummary {
  readonly handlers: HandlerRegistry;
  /** Where the packages listen to vendors' frames; absent where none of them can. */
  readonly vendorFrames?: VendorFrameHub;
  /** Looks again: new versions are offered, removed ones no longer, and what runs of those may end. */
  reload?(): Promise<void>;
  /** Ends what was started for them. */
  close?(): Promise<void>;
}

/** Runs packages in processes of their own. */
export interface PackageHosting {
  /** Whether packages for Node run there too, and not in this thread. */
  readonly hostsNode: boolean;
  /**
   * A reload replaces packages of which any file has changed, and not only those with another manifest; it keeps the code before where the
   * new one is broken.
   */
  readonly noticesEveryFile?: boolean;
  /** Rejects where the package cannot be run at all. */
  openHost(hosted: {
    readonly runtime: "node" | "python";
    readonly dir: string;
    readonly manifest: Manifest;
    readonly vendorFrames: VendorFrameHub;
  }): Promise<HostedHandlers>;
  close(): Promise<void>;
}

export interface HostedHandlers extends FoundHandlers {
  /** No more calls come; resolves once those that run have ended. */
  drain(): Promise<void>;
}

/** Most often a folder that was copied for a new version. */
const repeatedVersionFault = (dir: string, { name, version }: Manifest, otherDir: string): Fault =>
  fault(
    "E.PKG.INVALID",
    `${path.join(dir, manifestName)} says ${name} version ${version}, which is already loaded from ${otherDir}; change "version"`,
  );

export function describePackagesForRegister({
  packages,
}: LoadedPackagesSummary): Required<Pick<RegisterPayload, "packages" | "manifests">> {
  return {
    packages: packages.map(({ name, version }) => ({ name, version, status: "installed" })),
    manifests: packages.map(({ name, version, manifestJson }) => ({ name, version, manifest: manifestJson })),
  };
}

/** Loads `<root>/<name>/<version>/manifest.json` and `<root>/<name>/manifest.json`. Names come from the manifests. */
export async function loadPackages(root: string, hosting?: PackageHosting): Promise<LoadedPackages> {
  const packages = new PackageFolder(root, hosting);
  await packages.reload();
  return packages;
}

/** One directory with a manifest. */
interface PackageEntry {
  /** Null: it is looked at again at the next reload, whether it changed or not. */
  readonly identity: string | null;
  readonly loaded: LoadedPackage | null;
  /** Of what was looked at last, which need not be what is loaded. */
  readonly problems: readonly Fault[];
  /** What is loaded had no problem. */
  readonly isWhole: boolean;
  readonly hosts: readonly HostedHandlers[];
}

interface PreparedPackage {
  readonly dir: string;
  readonly identity: string | null;
  readonly read: { readonly manifest: Manifest; readonly manifestJson: JsonObject } | readonly Fault[];
  /** Hosts start side by side. */
  readonly hosts: Promise<readonly (HostedHandlers | Fault)[]>;
}

class PackageFolder implements LoadedPackages {
  readonly handlers = new HandlerRegistry();
  readonly vendorFrames = new VendorFrameHub();
  readonly #root: string;
  readonly #hosting: PackageHosting | undefined;
  readonly #entries = new Map<string, PackageEntry>();
  #reloading: Promise<void> = Promise.resolve();

  constructor(root: string, hosting: PackageHosting | undefined) {
    this.#root = root;
    this.#hosting = hosting;
  }

  get packages(): LoadedPackage[] {
    return [...this.#entries.values()].flatMap(({ loaded }) => loaded ?? []);
  }

  get problems(): PackageProblem[] {
    return [...this.#entries].flatMap(([dir, { problems }]) => problems.map(({ code, message }) => ({ dir, code, message })));
  }

  /** One after the other. */
  reload(): Promise<void> {
    const reload = (): Promise<void> => this.#reload();
    // Whether the one before it failed or not.
    this.#reloading = this.#reloading.then(reload, reload);
    return this.#reloading;
  }

  async close(): Promise<void> {
    await this.#hosting?.close();
  }

  async #reload(): Promise<void> {
    const dirs = await findPackageDirs(this.#root);
    const identify = this.#hosting?.noticesEveryFile === true ? identifyPackageFiles : identifyPackage;
    const identities = await Promise.all(dirs.map((dir) => identify(dir)));
    for (const dir of this.#entries.keys()) if (!dirs.includes(dir)) this.#unload(dir);
    const changed = dirs.flatMap((dir, index) => {
      const identity = identities[index] ?? null;
      const known = this.#entries.get(dir);
      return known !== undefined && identity !== null && known.identity === identity ? [] : [{ dir, identity }];
    });
    const prepared = await Promise.all(changed.map(({ dir, identity }) => this.#prepare(dir, identity)));
    // In the order of their names: of two with one name and version the first is offered.
    for (const one of prepared) {
      const entry = await this.#load(one);
      const known = this.#entries.get(one.dir);
      if (known !== undefined && this.#isWorse(entry, known)) this.#keep(one.dir, known, entry);
      else {
        this.#unload(one.dir);
        this.#offer(one.dir, entry);
      }
    }
  }

  /** For an author who is in the middle of a change: what worked is not taken away. */
  #isWorse({ loaded, isWhole }: PackageEntry, known: PackageEntry): boolean {
    if (this.#hosting?.noticesEveryFile !== true || known.loaded === null) return false;
    return loaded === null || (known.isWhole && !isWhole);
  }

  #keep(dir: string, known: PackageEntry, { identity, problems, hosts }: PackageEntry): void {
    for (const host of hosts) void host.drain();
    this.#entries.set(dir, { ...known, identity, problems });
  }

  async #prepare(dir: string, identity: string | null): Promise<PreparedPackage> {
    const manifestJson = await readManifestFile(path.join(dir, manifestName));
    const manifest = manifestJson instanceof Fault ? manifestJson : readManifest(manifestJson);
    if (manifestJson instanceof Fault || manifest instanceof Fault) {
      const read = manifestJson instanceof Fault ? [manifestJson] : findManifestProblems(manifestJson);
      return { dir, identity, read, hosts: Promise.resolve([]) };
    }
    return { dir, identity, read: { manifest, manifestJson }, hosts: this.#openHosts(dir, manifest) };
  }

  async #load({ dir, identity, read, hosts }: PreparedPackage): Promise<LoadedEntry> {
    if (!("manifest" in read)) return { ...nothingLoaded, identity, problems: read };
    const { manifest, manifestJson } = read;
    const { name, version } = manifest;
    const opened = await hosts;
    const isInThread = this.#hosting?.hostsNode !== true;
    const imported = isInThread
      ? await loadNodeHandlers(dir, manifest, this.vendorFrames)
      : { handlers: new Map(), problems: [] };
    const running = opened.filter((one): one is HostedHandlers => !(one instanceof Fault));
    const found = [imported, ...running];
    const handlers = new Map(found.flatMap((one) => [...one.handlers]));
    const problems = [...opened.filter((one) => one instanceof Fault), ...found.flatMap((one) => one.problems)];
    const twin = this.packages.find((one) => one.name === name && one.version === version && one.dir !== dir);
    if (handlers.size > 0 && twin === undefined) {
      // Nodes without a handler are problems of a package that is otherwise fine.
      const loaded = { name, version, dir, manifestJson, nodeTypes: [...handlers.keys()], identity };
      return { identity, loaded, problems, isWhole: problems.length === 0, hosts: running, handlers };
    }
    for (const host of running) void host.drain();
    if (twin !== undefined) {
      const double = repeatedVersionFault(dir, manifest, twin.dir);
      return { ...nothingLoaded, identity: null, problems: [double] };
    }
    const none = fault(
      "E.PKG.INVALID",
      `package ${name} ${version} has no adapter for ${this.#hosting === undefined ? "Node" : "Node or Python"}`,
    );
    return { ...nothingLoaded, identity, problems: problems.length > 0 ? problems : [none] };
  }

  async #openHosts(dir: string, manifest: Manifest): Promise<readonly (HostedHandlers | Fault)[]> {
    const hosting = this.#hosting;
    if (hosting === undefined) return [];
    const runtimes = new Set(manifest.adapters.map((adapter) => (isForNode(adapter, manifest) ? "node" : "python")));
    if (!hosting.hostsNode) runtimes.delete("node");
    const { vendorFrames } = this;
    return Promise.all(
      [...runtimes].map(async (runtime) => {
        try {
          return await hosting.openHost({ runtime, dir, manifest, vendorFrames });
        } catch (thrown) {
          return thrown instanceof Fault ? thrown : fault("E.PKG.INVALID", errorMessage(thrown));
        }
      }),
    );
  }

  #offer(dir: string, { handlers, ...entry }: LoadedEntry): void {
    this.#entries.set(dir, entry);
    const { loaded } = entry;
    if (loaded === null) return;
    for (const [nodeType, handler] of handlers)
      this.handlers.add({ packageName: loaded.name, packageVersion: loaded.version, nodeType }, handler);
  }

  #unload(dir: string): void {
    const entry = this.#entries.get(dir);
    if (entry === undefined) return;
    this.#entries.delete(dir);
    if (entry.loaded !== null) this.handlers.removeVersion(entry.loaded.name, entry.loaded.version);
    for (const host of entry.hosts) void host.drain();
  }
}

type LoadedEntry = PackageEntry & { readonly handlers: ReadonlyMap<string, RegisteredHandler> };

const nothingLoaded = { loaded: null, isWhole: false, hosts: [], handlers: new Map<string, RegisteredHandler>() } as const;
