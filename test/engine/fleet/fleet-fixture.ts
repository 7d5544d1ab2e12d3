// A tenant with published versions of a package and workers that install them, on the real engine over the memory store. The test says
// when each scheduler steps, and what a worker answers.

import { createHash } from "node:crypto";
import { createSigningKey, nodePackageFiles, signFiles } from "@astraflow/archive/testing";
import type { Effect, WorkerDescription } from "@astraflow/engine";
import { allGrants, createServices, type Services, type ServicesOptions } from "@astraflow/services";
import { createFakeEnvironment } from "@astraflow/services/testing";
import { onTestFinished } from "vitest";
import { buildChain, describeWorker, EngineHarness } from "../harness/engine-harness.ts";
import { createHarnessLink } from "../harness/harness-link.ts";
import type { TestWorker } from "../harness/test-worker.ts";

export const packageName = "demo";
export const tenant = "t1";
export const caller = { identity: { tenant, user: "boss", grants: allGrants }, requestId: "r1" };

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);
type OrderEffect = Extract<Effect, { type: "order" }>;

/** How a worker ends a command about a package; undefined: it does not answer. */
export type PackageAnswer = "done" | { readonly code: string; readonly message: string } | undefined;

/** A worker that keeps a list of packages and answers commands about them. */
export class PackageWorker {
  readonly session: TestWorker;
  readonly #harness: EngineHarness;
  readonly #pool: string;
  #versions: string[];
  #answered = new Set<string>();
  answer: (order: OrderEffect["order"]) => PackageAnswer = () => "done";

  constructor(harness: EngineHarness, session: TestWorker, pool: string, versions: readonly string[]) {
    this.#harness = harness;
    this.session = session;
    this.#pool = pool;
    this.#versions = [...versions];
  }

  get versions(): readonly string[] {
    return [...this.#versions].sort();
  }

  /** Every command it was sent, as `install 1.0.0`. */
  get commands(): string[] {
    return this.#orders().map(({ order }) => `${order.type.replace("pkg.", "")} ${"version" in order ? order.version : ""}`);
  }

  /** Answers what it has not answered yet. */
  async work(): Promise<void> {
    for (const { id, order } of this.#orders()) {
      const answer = this.#answered.has(id) ? undefined : this.answer(order);
      if (answer === undefined || (order.type !== "pkg.install" && order.type !== "pkg.uninstall")) continue;
      this.#answered.add(id);
      const { worker, session } = this.session;
      const about = { tenant, worker, session, name: packageName, version: order.version ?? "*" };
      if (answer !== "done")
        await this.#harness.ask({ type: "worker.package", ...about, status: "failed", details: { command: id, ...answer } });
      else {
        const isInstall = order.type === "pkg.install";
        this.#versions = this.#versions.filter((version) => order.version !== null && version !== order.version);
        if (isInstall) this.#versions.push(order.version);
        await this.#harness.ask({ type: "worker.describe", tenant, worker, session, about: this.describe() });
        const status = isInstall ? "installed" : "removed";
        await this.#harness.ask({ type: "worker.package", ...about, status, details: { command: id } });
      }
    }
  }

  describe(): WorkerDescription {
    return describePackageWorker(this.#pool, this.#versions);
  }

  #orders(): OrderEffect[] {
    const sent = this.#harness.effects.filter(
      (effect): effect is OrderEffect => effect.type === "order" && effect.session === this.session.session,
    );
    return [...new Map(sent.map((effect) => [effect.id, effect])).values()];
  }
}

/** Refuses, as an installer does, what is older than the highest version that the worker had, unless the command allows it. */
export function rememberHighest(worker: PackageWorker): void {
  let [highest = ""] = worker.versions.toReversed();
  worker.answer = (order) => {
    if (order.type !== "pkg.install") return "done";
    if (order.version < highest && order.allowOlder !== true)
      return { code: "E.PKG.PERMISSION", message: `${order.version} is older than ${highest}` };
    if (order.version > highest) highest = order.version;
    return "done";
  };
}

const describePackageWorker = (pool: string, versions: readonly string[]): WorkerDescription =>
  describeWorker({
    slots: 10,
    pool,
    features: ["fence", "cancel", "held", "pkg.install"],
    packages: versions.map((version) => ({ name: packageName, version, status: "installed" })),
  });

export async function openFleetFixture(options: Partial<ServicesOptions> = {}) {
  const harness = await new EngineHarness().start();
  const engineClient = createHarnessLink(harness);
  const environment = createFakeEnvironment();
  /** One more scheduler on the same store: it knows nothing but what is stored. */
  const openScheduler = (overrides: Partial<ServicesOptions> = {}): Services =>
    createServices({
      engineClient,
      reader: harness.store,
      environment,
      digest,
      gauge: () => null,
      ackDeadlineMs: 5_000,
      hasBulkPolling: false,
      ...options,
      ...overrides,
    });
  const services = openScheduler();
  const signer = createSigningKey();
  await services.packageKeys.add(caller, { publicKey: signer.publicKey, name: "Release" }, null);
  const workers: PackageWorker[] = [];

  const fixture = {
    harness,
    environment,
    services,
    workers,
    openScheduler,

    async publish(version: string): Promise<void> {
      const { archive, signature } = signFiles(signer.privateKey, nodePackageFiles(packageName, version, {}));
      const bytes = (async function* () {
        yield archive;
      })();
      await services.packages.publish(caller, { bytes, readSignature: () => JSON.stringify(signature), key: null });
    },

    async join(name: string, versions: readonly string[] = [], pool = "default"): Promise<PackageWorker> {
      const session = await harness.joinWorker(name, { tenant, ...describePackageWorker(pool, versions) });
      const worker = new PackageWorker(harness, session, pool, versions);
      workers.push(worker);
      return worker;
    },

    /** One step of a scheduler in which nothing may fail, then the workers answer. */
    async step(scheduler: Services = services): Promise<void> {
      const before = environment.logRecords.length;
      await scheduler.fleet.loop.step(tenant);
      const failure = environment.logRecords.slice(before).find(({ event }) => event === "fleet.step");
      if (failure !== undefined) throw new Error(`a step failed: ${String(failure["problem"])}`);
      await fixture.answer();
    },

    /** What was sent reaches the workers, and they answer. */
    async answer(): Promise<void> {
      await harness.settle();
      for (const worker of workers) await worker.work();
    },

    async steps(count: number, scheduler: Services = services): Promise<void> {
      for (let at = 0; at < count; at += 1) await fixture.step(scheduler);
    },

    /** A run of one task of a version, on whichever worker has it. */
    async startTask(version: string, policy: object = {}): Promise<string> {
      const [node] = buildChain(1)["nodes"] as object[];
      const workflow = {
        ...buildChain(1),
        nodes: [{ ...node, type: `${packageName}.greet`, package: { name: packageName, version }, policy }],
      };
      const run = await harness.startRun(workflow, { tenant });
      await harness.settle();
      return run;
    },

    /** Ends the newest task of a worker. */
    async endTask(worker: PackageWorker, outcome: "succeeded" | "failed"): Promise<void> {
      if (outcome === "succeeded") await worker.session.succeed();
      else await worker.session.error("E.RUNNER.FAILURE");
      await harness.settle();
    },

    rollout: async (id: string) => (await services.fleet.rollouts.find(tenant, packageName, id)).rollout,
    install: async (id: string) => (await services.fleet.installs.find(tenant, packageName, id)).install,
    versionStatus: async (version: string) => (await services.packages.find(tenant, packageName, version)).record.status,

    async close(): Promise<void> {
      services.close();
      await harness.engine.stop();
    },
  };
  return fixture;
}

export type FleetFixture = Awaited<ReturnType<typeof openFleetFixture>>;

/** Workers that hold 1.0.0, with 1.1.0 published too; closed after the test. */
export async function openFleet(workers: number, options: Partial<ServicesOptions> = {}): Promise<FleetFixture> {
  const fixture = await openFleetFixture(options);
  onTestFinished(() => fixture.close());
  for (const version of ["1.0.0", "1.1.0"]) await fixture.publish(version);
  for (let at = 1; at <= workers; at += 1) await fixture.join(`w${at}`, ["1.0.0"]);
  return fixture;
}

export const startRollout = async ({ services }: FleetFixture, request: object = {}) =>
  (await services.fleet.rollouts.start(caller, packageName, { version: "1.1.0", observeMs: 60_000, ...request }, null)).rollout;

/** Names of the workers that have a version. */
export const holders = ({ workers }: FleetFixture, version: string): string[] =>
  workers.filter((worker) => worker.versions.includes(version)).map(({ session }) => session.worker.slice(3));
