// The description of a worker, collected from its register, catalogue, inventory and heartbeats, and the commands that report it. Pure.
// Only what the engine needs is stored: a register carries whole manifests, and a session outlives its sockets.

import type { AttemptRef, DescribeWorkerCommand, JoinWorkerCommand, WorkerDescription } from "@astraflow/engine";
import {
  type Dialect,
  type Fault,
  fault,
  type HeartbeatPayload,
  omitUndefined,
  type PkgCatalogPayload,
  type RegisterPayload,
} from "@astraflow/protocol";
import { type ReportedPackage, readHandlers, reportedManifestDigest } from "@astraflow/services";
import { type CommandOrigin, toAttempts } from "../frames/work-frames.ts";
import type { HandshakeIdentity } from "./worker-handshake.ts";

type HeartbeatPackages = NonNullable<NonNullable<HeartbeatPayload["packages"]>["installed"]>;
type Packages = WorkerDescription["packages"];

/** Packages as they were last reported, and the handlers in them. */
interface PackageListing {
  readonly packages: Packages;
  readonly handlers: NonNullable<WorkerDescription["handlers"]>;
}

const emptyListing: PackageListing = { packages: [], handlers: [] };

/** About a thousand packages with usual names. The engine writes it with every change of the worker's row. */
const descriptionCharsMax = 256 * 1024;

export class Registration {
  /** Protocol extensions that may be used with this worker: what it announces in v2, nothing in other dialects. */
  readonly features: ReadonlySet<string>;
  private readonly capabilities: Omit<WorkerDescription, "packages" | "handlers" | "hostname" | "version" | "dialect">;
  /** Null where the register lists no packages. */
  private readonly registeredListing: PackageListing | null;
  /** Null until there is one. */
  catalog: PackageListing | null;
  /** Reported by a later heartbeat. */
  private heartbeatPackages: Packages | null = null;
  private reportedBootId: string | null;
  /** Attempts that the worker runs; null where it cannot report them, and once the engine knows them. */
  private running: readonly AttemptRef[] | null;
  /** Null where the worker does not report resources, and once they were taken. */
  private reportedResources: readonly string[] | null;

  /** `before`: an earlier catalogue. */
  constructor(register: RegisterPayload, dialect: Dialect, before: PackageListing | null) {
    const { capabilities, packages, manifests, running, boot_id, payload_types, resources } = register;
    const { concurrency, runtimes, features, pool, tags } = capabilities;
    this.features = new Set(dialect === "v2" ? features : []);
    this.capabilities = {
      slots: concurrency.max_parallel,
      ...(concurrency.per_node_limits !== undefined && { perNodeLimits: concurrency.per_node_limits }),
      runtimes,
      features,
      payloadTypes: payload_types ?? [],
      pool: pool ?? "default",
      tags: tags ?? {},
    };
    const listed = packages ?? manifests?.map(({ name, version }) => ({ name, version, status: "installed" }));
    this.registeredListing =
      listed === undefined
        ? null
        : {
            packages: toPackageRefs(listed, readManifestDigests(manifests ?? [])),
            handlers: readHandlers(manifests ?? []),
          };
    this.catalog = before;
    this.reportedBootId = boot_id ?? null;
    // Who names neither its process nor its attempts cannot report them, and keeps what it has as workers of older dialects do.
    const canReport = dialect === "v2" && (boot_id !== undefined || running !== undefined);
    this.running = canReport ? toAttempts(running ?? []) : null;
    this.reportedResources = this.features.has("resources") ? (resources ?? null) : null;
  }

  /** Only once: the resources of a worker change with every task. */
  takeReportedResources(): readonly string[] | null {
    const { reportedResources } = this;
    this.reportedResources = null;
    return reportedResources;
  }

  /** Without a boot id the instance takes its place, and the reported inventory alone shows what survived a restart. */
  bootIdFor(identity: HandshakeIdentity): string | null {
    return identity.dialect === "v2" ? (this.reportedBootId ?? identity.instance) : identity.freshBootId;
  }

  /** Null where the description is not too large. */
  sizeFault(identity: HandshakeIdentity): Fault | null {
    return JSON.stringify(this.buildDescription(identity)).length <= descriptionCharsMax
      ? null
      : fault("E.FRAME.TOO_LARGE", `the worker description exceeds ${descriptionCharsMax} characters (manifests not counted)`);
  }

  buildJoin(identity: HandshakeIdentity, session: string): JoinWorkerCommand {
    const mayBeNewProcess = this.running === null && this.reportedBootId === null && identity.isProcessUnknown;
    return { ...this.joinFields(identity, session), running: this.running, ...(mayBeNewProcess && { mayBeNewProcess }) };
  }

  /** The same session on a new socket: the engine knows what it runs. */
  buildRejoin(identity: HandshakeIdentity, session: string, unacked: readonly AttemptRef[]): JoinWorkerCommand {
    return { ...this.joinFields(identity, session), running: null, resumed: { unacked } };
  }

  /** The engine has stored the join and with it the running attempts. */
  markJoined(): void {
    this.running = null;
  }

  /** For a session that has joined. */
  buildDescribe(identity: HandshakeIdentity, { tenant, worker, session }: CommandOrigin): DescribeWorkerCommand {
    this.markJoined();
    return { type: "worker.describe", tenant, worker, session, ...this.descriptionFields(identity) };
  }

  /** Only the dialect has changed: what was installed since the last list stays known. */
  buildDialectChange(identity: HandshakeIdentity, origin: CommandOrigin): DescribeWorkerCommand {
    return { ...this.buildDescribe(identity, origin), keepsPackages: true };
  }

  /** True when the packages of a heartbeat differ from those known, or are the first that this session lists. */
  updateInstalled(installed: HeartbeatPackages): boolean {
    const { isListed } = this;
    const before = JSON.stringify(this.currentPackages());
    // A heartbeat carries no manifests: what the worker announced before still holds.
    const announced = this.currentListing.packages;
    const known = new Map(announced.map((one) => [packageKey(one), one.manifest]));
    this.heartbeatPackages = toPackageRefs(installed, known);
    return !isListed || JSON.stringify(this.currentPackages()) !== before;
  }

  /** A newer catalogue replaces everything reported before it. */
  replaceCatalog({ packages }: PkgCatalogPayload): void {
    this.catalog = { packages: toPackageRefs(packages, readManifestDigests(packages)), handlers: readHandlers(packages) };
    this.heartbeatPackages = null;
  }

  private joinFields(identity: HandshakeIdentity, session: string): Omit<JoinWorkerCommand, "running"> {
    const { tenant, worker, displayInfo } = identity;
    const boot = this.bootIdFor(identity);
    return { type: "worker.join", tenant, worker, name: displayInfo.name, boot, session, ...this.descriptionFields(identity) };
  }

  private descriptionFields(identity: HandshakeIdentity): Pick<JoinWorkerCommand, "about" | "keepsPackages"> {
    return { about: this.buildDescription(identity), ...(!this.isListed && { keepsPackages: true }) };
  }

  /** Whether this session has listed packages; otherwise those of an earlier one still count. */
  private get isListed(): boolean {
    return (this.catalog ?? this.registeredListing ?? this.heartbeatPackages) !== null;
  }

  private buildDescription({ displayInfo, dialect }: HandshakeIdentity): WorkerDescription {
    const { handlers } = this.currentListing;
    return {
      ...this.capabilities,
      // Until the worker has shown its dialect it gets one task at a time.
      ...(dialect === "undecided" && { slots: 1 }),
      packages: this.currentPackages(),
      hostname: displayInfo.hostname,
      version: displayInfo.version,
      dialect,
      ...(handlers.length > 0 && { handlers }),
    };
  }

  /** Digest of the manifest that the worker announced for a version; undefined: none. */
  manifestOf(name: string, version: string): string | undefined {
    return this.currentPackages().find((one) => one.name === name && one.version === version)?.manifest;
  }

  /** Of the last heartbeat, else of the catalogue, else of the register. */
  private currentPackages(): Packages {
    return this.heartbeatPackages ?? this.currentListing.packages;
  }

  private get currentListing(): PackageListing {
    return this.catalog ?? this.registeredListing ?? emptyListing;
  }
}

const packageKey = ({ name, version }: Pick<Packages[number], "name" | "version">): string => `${name}/${version}`;

/** By package and version. */
type ManifestDigests = ReadonlyMap<string, string | undefined>;

const readManifestDigests = (reported: readonly ReportedPackage[]): ManifestDigests =>
  new Map(reported.map((one) => [packageKey(one), reportedManifestDigest(one)]));

const toPackageRefs = (
  packages: readonly Pick<Packages[number], "name" | "version" | "status">[],
  digests: ManifestDigests,
): Packages =>
  packages.map(({ name, version, status }) => ({
    name,
    version,
    status,
    ...omitUndefined({ manifest: digests.get(packageKey({ name, version })) }),
  }));
