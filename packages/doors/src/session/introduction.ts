// What a worker says of itself before it gets work: its register, its catalogue, its inventory. Kept until all is known, and kept up to date.
// Only what is told to the engine is kept: a register carries whole manifests, and a session outlives its sockets.
// Pure: it makes the commands that tell the engine; when they are sent is the session's business.

import type { DescribeWorker, Held, JoinWorker, WorkerAbout } from "@astraflow/engine";
import {
  type Fault,
  fault,
  type HeartbeatPayload,
  type InventoryPayload,
  type PkgCatalogPayload,
  type RegisterPayload,
} from "@astraflow/protocol";
import { handlersIn } from "../handlers.ts";
import type { Bound } from "./greeting.ts";
import { heldOf, type Speaker } from "./words.ts";

type Installed = NonNullable<NonNullable<HeartbeatPayload["packages"]>["installed"]>;
type Packages = WorkerAbout["packages"];

/** Packages as they were shown last, and what can be run with them. */
interface Shown {
  readonly packages: Packages;
  readonly handlers: NonNullable<WorkerAbout["handlers"]>;
}

/** About a thousand packages under usual names. The engine writes it with every change of the worker's row. */
const aboutCharsMax = 256 * 1024;

export class Introduction {
  readonly features: ReadonlySet<string>;
  private readonly said: Omit<WorkerAbout, "packages" | "handlers" | "hostname" | "version" | "dialect">;
  /** A register that names no part of the inventory leaves it to the two frames that follow. */
  private readonly isNamed: boolean;
  private readonly registered: Shown;
  private shown: Shown | null;
  /** What a heartbeat said later. */
  private installed: Packages | null = null;
  private boot: string | null;
  /** What runs there; null once the engine knows it. */
  private running: readonly Held[] | null;
  private hasInventory = false;
  /** What it keeps under names; null where it does not say, and once that was compared. */
  private keeps: readonly string[] | null;

  /** `before`: what is known of an earlier catalogue. */
  constructor(register: RegisterPayload, before: Shown | null) {
    const { capabilities, packages, manifests, running, boot_id, payload_types, resources } = register;
    const { concurrency, runtimes, features, pool, tags } = capabilities;
    this.features = new Set(features);
    this.said = {
      slots: concurrency.max_parallel,
      ...(concurrency.per_node_limits !== undefined && { perNodeLimits: concurrency.per_node_limits }),
      runtimes,
      features,
      payloadTypes: payload_types ?? [],
      pool: pool ?? "default",
      tags: tags ?? {},
    };
    this.isNamed = packages !== undefined || manifests !== undefined || running !== undefined || boot_id !== undefined;
    const listed = packages ?? manifests?.map(({ name, version }) => ({ name, version, status: "installed" })) ?? [];
    this.registered = { packages: plain(listed), handlers: handlersIn(manifests ?? []) };
    this.shown = before;
    this.boot = boot_id ?? null;
    this.running = heldOf(running ?? []);
    this.keeps = this.features.has("resources") ? (resources ?? null) : null;
  }

  /** Asked once: what it keeps changes with every task. */
  takeKept(): readonly string[] | null {
    const { keeps } = this;
    this.keeps = null;
    return keeps;
  }

  get catalog(): Shown | null {
    return this.shown;
  }

  set catalog(catalog: PkgCatalogPayload | null) {
    this.shown = catalog === null ? null : { packages: plain(catalog.packages), handlers: handlersIn(catalog.packages) };
  }

  set inventory(inventory: InventoryPayload | null) {
    if (inventory === null) return;
    this.hasInventory = true;
    this.boot = inventory.boot_id ?? this.boot;
    this.running = heldOf(inventory.running);
  }

  /** The older dialects know no frames that could follow. */
  isComplete({ dialect }: Bound): boolean {
    return this.isNamed || dialect !== "v2" || (this.shown !== null && this.hasInventory);
  }

  /** Without a boot id the reported inventory alone tells what survived; the instance then stands for its boot. */
  bootOf(bound: Bound): string | null {
    return bound.dialect === "v2" ? (this.boot ?? bound.instance) : bound.boot;
  }

  /** Why this is more than a worker may say of itself; null where it is not. */
  objection(bound: Bound): Fault | null {
    return JSON.stringify(this.about(bound)).length <= aboutCharsMax
      ? null
      : fault("E.FRAME.TOO_LARGE", `what a worker says of itself may have ${aboutCharsMax} characters, without its manifests`);
  }

  /** What did not come counts as empty: nothing is kept that nobody reported. The older dialects cannot report. */
  join(bound: Bound, session: string): JoinWorker {
    const running = bound.dialect === "v2" ? (this.running ?? []) : null;
    return { ...this.joinAs(bound, session), running };
  }

  /** The same session over a new socket: what it runs the engine knows. */
  rejoin(bound: Bound, session: string, unacked: readonly Held[]): JoinWorker {
    return { ...this.joinAs(bound, session), running: null, resumed: { unacked } };
  }

  /** The engine has stored the join: what ran at that moment is its business from now on. */
  joined(): void {
    this.running = null;
  }

  /** In a session that the engine knows already, and with it what runs there. */
  describe(bound: Bound, { tenant, worker, session }: Speaker): DescribeWorker {
    this.joined();
    return { type: "worker.describe", tenant, worker, session, about: this.about(bound) };
  }

  /** True when a list in a heartbeat says something new. */
  learn(installed: Installed): boolean {
    const before = JSON.stringify(this.packages());
    this.installed = plain(installed);
    return JSON.stringify(this.packages()) !== before;
  }

  /** A newer catalogue stands for everything said before it. */
  relearn(catalog: PkgCatalogPayload): void {
    this.catalog = catalog;
    this.installed = null;
  }

  private joinAs(bound: Bound, session: string): Omit<JoinWorker, "running"> {
    const { tenant, worker, label } = bound;
    const boot = this.bootOf(bound);
    return { type: "worker.join", tenant, worker, name: label.name, boot, session, about: this.about(bound) };
  }

  private about({ label, dialect }: Bound): WorkerAbout {
    const { handlers } = this.shown ?? this.registered;
    return {
      ...this.said,
      packages: this.packages(),
      hostname: label.hostname,
      version: label.version,
      dialect,
      ...(handlers.length > 0 && { handlers }),
    };
  }

  /** The list, else what the manifests show; a catalogue or a heartbeat that came later stands for both. */
  private packages(): Packages {
    return this.installed ?? (this.shown ?? this.registered).packages;
  }
}

/** Without all that a frame may carry besides. */
const plain = (packages: Packages): Packages => packages.map(({ name, version, status }) => ({ name, version, status }));
