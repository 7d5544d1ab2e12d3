// What a worker says of itself before it gets work: its register, its catalogue, its inventory. Kept until all is known, and kept up to date.
// Pure: it makes the commands that tell the engine; when they are sent is the session's business.

import type { DescribeWorker, JoinWorker, WorkerAbout } from "@astraflow/engine";
import type { Handshake, Heartbeat, Inventory, PkgCatalog, Register } from "@astraflow/protocol";
import { handlersIn } from "../handlers.ts";
import type { Bound } from "./greeting.ts";
import { heldOf, type Speaker } from "./words.ts";

type Installed = NonNullable<NonNullable<Heartbeat["packages"]>["installed"]>;

export class Introduction {
  readonly register: Register;
  readonly features: ReadonlySet<string>;
  catalog: PkgCatalog | null;
  inventory: Inventory | null = null;
  /** What a heartbeat said later. */
  private installed: Installed | null = null;

  constructor(register: Register, catalog: PkgCatalog | null) {
    this.register = register;
    this.catalog = catalog;
    this.features = new Set(register.capabilities.features);
  }

  /** A register that names no part of the inventory leaves it to the two frames that follow; the older dialects know no such frames. */
  isComplete({ dialect }: Bound): boolean {
    const { packages, manifests, running, boot_id } = this.register;
    const isNamed = packages !== undefined || manifests !== undefined || running !== undefined || boot_id !== undefined;
    return isNamed || dialect !== "v2" || (this.catalog !== null && this.inventory !== null);
  }

  /** What did not come counts as empty: nothing is kept that nobody reported. The older dialects cannot report. */
  join(bound: Bound, session: string): JoinWorker {
    const isOlder = bound.dialect !== "v2";
    return {
      type: "worker.join",
      tenant: bound.tenant,
      worker: bound.worker,
      name: bound.handshake.worker.worker_name || bound.instance,
      // Without a boot id the reported inventory alone tells what survived; the instance then stands for its boot.
      boot: isOlder ? bound.boot : (this.inventory?.boot_id ?? this.register.boot_id ?? bound.instance),
      session,
      about: this.about(bound),
      running: isOlder ? null : heldOf(this.inventory?.running ?? this.register.running ?? []),
    };
  }

  describe(bound: Bound, { tenant, worker, session }: Speaker): DescribeWorker {
    return { type: "worker.describe", tenant, worker, session, about: this.about(bound) };
  }

  /** True when a list in a heartbeat says something new. */
  learn(installed: Installed): boolean {
    const before = JSON.stringify(this.packages());
    this.installed = installed;
    return JSON.stringify(this.packages()) !== before;
  }

  /** A newer catalogue stands for everything said before it. */
  relearn(catalog: PkgCatalog): void {
    this.catalog = catalog;
    this.installed = null;
  }

  private about(bound: Bound): WorkerAbout {
    const { worker }: Handshake = bound.handshake;
    const { concurrency, runtimes, features, pool, tags } = this.register.capabilities;
    const handlers = handlersIn(this.catalog?.packages ?? this.register.manifests ?? []);
    return {
      slots: concurrency.max_parallel,
      ...(concurrency.per_node_limits !== undefined && { perNodeLimits: concurrency.per_node_limits }),
      packages: this.packages(),
      runtimes,
      features,
      payloadTypes: this.register.payload_types ?? [],
      pool: pool ?? "default",
      tags: tags ?? {},
      hostname: worker.hostname,
      version: worker.version,
      dialect: bound.dialect,
      ...(handlers !== undefined && handlers.length > 0 && { handlers }),
    };
  }

  /** The list, else what the manifests show; a catalogue or a heartbeat that came later stands for both. */
  private packages(): WorkerAbout["packages"] {
    const { packages, manifests } = this.register;
    const shown = () => manifests?.map(({ name, version }) => ({ name, version, status: "installed" }));
    const listed = this.installed ?? this.catalog?.packages ?? packages ?? shown() ?? [];
    return listed.map(({ name, version, status }) => ({ name, version, status }));
  }
}
