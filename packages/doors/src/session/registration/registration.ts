// What a worker says of itself before it gets work: its register, its catalogue, its inventory. Kept until all is known, and kept up to date.
// Only what is told to the engine is kept: a register carries whole manifests, and a session outlives its sockets.
// Pure: it makes the commands that tell the engine; when they are sent is the session's business.

import type { AttemptRef, DescribeWorker, JoinWorker, WorkerDescription } from "@astraflow/engine";
import {
  type Fault,
  fault,
  type HeartbeatPayload,
  type InventoryPayload,
  type PkgCatalogPayload,
  type RegisterPayload,
} from "@astraflow/protocol";
import { readHandlers } from "@astraflow/services";
import { type CommandOrigin, toAttempts } from "../frames/work-frames.ts";
import type { HandshakeIdentity } from "./worker-handshake.ts";

type HeartbeatPackages = NonNullable<NonNullable<HeartbeatPayload["packages"]>["installed"]>;
type Packages = WorkerDescription["packages"];

/** Packages as they were shown last, and what can be run with them. */
interface PackageListing {
  readonly packages: Packages;
  readonly handlers: NonNullable<WorkerDescription["handlers"]>;
}

/** About a thousand packages under usual names. The engine writes it with every change of the worker's row. */
const descriptionCharsMax = 256 * 1024;

export class Registration {
  readonly features: ReadonlySet<string>;
  private readonly capabilities: Omit<WorkerDescription, "packages" | "handlers" | "hostname" | "version" | "dialect">;
  /** A register that names no part of the inventory leaves it to the two frames that follow. */
  private readonly hasInventoryFields: boolean;
  private readonly registeredListing: PackageListing;
  private catalogListing: PackageListing | null;
  /** What a heartbeat said later. */
  private heartbeatPackages: Packages | null = null;
  private reportedBootId: string | null;
  /** What runs there; null once the engine knows it. */
  private running: readonly AttemptRef[] | null;
  private hasInventory = false;
  /** What it keeps under names; null where it does not say, and once that was compared. */
  private reportedResources: readonly string[] | null;

  /** `before`: what is known of an earlier catalogue. */
  constructor(register: RegisterPayload, before: PackageListing | null) {
    const { capabilities, packages, manifests, running, boot_id, payload_types, resources } = register;
    const { concurrency, runtimes, features, pool, tags } = capabilities;
    this.features = new Set(features);
    this.capabilities = {
      slots: concurrency.max_parallel,
      ...(concurrency.per_node_limits !== undefined && { perNodeLimits: concurrency.per_node_limits }),
      runtimes,
      features,
      payloadTypes: payload_types ?? [],
      pool: pool ?? "default",
      tags: tags ?? {},
    };
    this.hasInventoryFields = packages !== undefined || manifests !== undefined || running !== undefined || boot_id !== undefined;
    const listed = packages ?? manifests?.map(({ name, version }) => ({ name, version, status: "installed" })) ?? [];
    this.registeredListing = { packages: withoutExtraFields(listed), handlers: readHandlers(manifests ?? []) };
    this.catalogListing = before;
    this.reportedBootId = boot_id ?? null;
    this.running = toAttempts(running ?? []);
    this.reportedResources = this.features.has("resources") ? (resources ?? null) : null;
  }

  /** Asked once: what it keeps changes with every task. */
  takeReportedResources(): readonly string[] | null {
    const { reportedResources: keeps } = this;
    this.reportedResources = null;
    return keeps;
  }

  get catalog(): PackageListing | null {
    return this.catalogListing;
  }

  set catalog(catalog: PkgCatalogPayload | null) {
    this.catalogListing =
      catalog === null ? null : { packages: withoutExtraFields(catalog.packages), handlers: readHandlers(catalog.packages) };
  }

  set inventory(inventory: InventoryPayload | null) {
    if (inventory === null) return;
    this.hasInventory = true;
    this.reportedBootId = inventory.boot_id ?? this.reportedBootId;
    this.running = toAttempts(inventory.running);
  }

  /** The older dialects know no frames that could follow. */
  isComplete({ dialect }: HandshakeIdentity): boolean {
    return this.hasInventoryFields || dialect !== "v2" || (this.catalogListing !== null && this.hasInventory);
  }

  /** Without a boot id the reported inventory alone tells what survived; the instance then stands for its boot. */
  bootIdFor(identity: HandshakeIdentity): string | null {
    return identity.dialect === "v2" ? (this.reportedBootId ?? identity.instance) : identity.freshBootId;
  }

  /** Why this is more than a worker may say of itself; null where it is not. */
  sizeFault(identity: HandshakeIdentity): Fault | null {
    return JSON.stringify(this.about(identity)).length <= descriptionCharsMax
      ? null
      : fault(
          "E.FRAME.TOO_LARGE",
          `what a worker says of itself may have ${descriptionCharsMax} characters, without its manifests`,
        );
  }

  /** What did not come counts as empty: nothing is kept that nobody reported. The older dialects cannot report. */
  buildJoin(identity: HandshakeIdentity, session: string): JoinWorker {
    const running = identity.dialect === "v2" ? (this.running ?? []) : null;
    return { ...this.joinFields(identity, session), running };
  }

  /** The same session over a new socket: what it runs the engine knows. */
  buildRejoin(identity: HandshakeIdentity, session: string, unacked: readonly AttemptRef[]): JoinWorker {
    return { ...this.joinFields(identity, session), running: null, resumed: { unacked } };
  }

  /** The engine has stored the join: what ran at that moment is its business from now on. */
  markJoined(): void {
    this.running = null;
  }

  /** In a session that the engine knows already, and with it what runs there. */
  buildDescribe(identity: HandshakeIdentity, { tenant, worker, session }: CommandOrigin): DescribeWorker {
    this.markJoined();
    return { type: "worker.describe", tenant, worker, session, about: this.about(identity) };
  }

  /** True when a list in a heartbeat says something new. */
  updateInstalled(installed: HeartbeatPackages): boolean {
    const before = JSON.stringify(this.packages());
    this.heartbeatPackages = withoutExtraFields(installed);
    return JSON.stringify(this.packages()) !== before;
  }

  /** A newer catalogue stands for everything said before it. */
  replaceCatalog(catalog: PkgCatalogPayload): void {
    this.catalog = catalog;
    this.heartbeatPackages = null;
  }

  private joinFields(identity: HandshakeIdentity, session: string): Omit<JoinWorker, "running"> {
    const { tenant, worker, displayInfo: label } = identity;
    const boot = this.bootIdFor(identity);
    return { type: "worker.join", tenant, worker, name: label.name, boot, session, about: this.about(identity) };
  }

  private about({ displayInfo: label, dialect }: HandshakeIdentity): WorkerDescription {
    const { handlers } = this.catalogListing ?? this.registeredListing;
    return {
      ...this.capabilities,
      packages: this.packages(),
      hostname: label.hostname,
      version: label.version,
      dialect,
      ...(handlers.length > 0 && { handlers }),
    };
  }

  /** The list, else what the manifests show; a catalogue or a heartbeat that came later stands for both. */
  private packages(): Packages {
    return this.heartbeatPackages ?? (this.catalogListing ?? this.registeredListing).packages;
  }
}

/** Without all that a frame may carry besides. */
const withoutExtraFields = (packages: Packages): Packages =>
  packages.map(({ name, version, status }) => ({ name, version, status }));
