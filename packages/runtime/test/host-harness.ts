// Packages in real child hosts, without a session: a test starts attempts and sees what comes of them.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { DispatchPayload } from "@astraflow/protocol";
import type { FeedbackInput } from "@astraflow/sdk";
import { createAttempt, type LocalAttempt } from "../src/attempts/attempt.ts";
import type { AttemptOutcome } from "../src/attempts/outcome.ts";
import type { MiddlewareCallAnswer } from "../src/handlers/middleware-call.ts";
import { type LoadedPackages, loadPackages } from "../src/handlers/package-loader.ts";
import { type HostingSettings, HostSet } from "../src/hosts/host-set.ts";
import { resourceDefaults } from "../src/resources/resource.ts";
import { createInProcessRunner, type HandlerRunner, type InProcessRunnerOptions } from "../src/runner/handler-runner.ts";
import { realEnvironment } from "./sample-worker.ts";

export interface SamplePackage {
  readonly name?: string;
  readonly version?: string;
  readonly runtime: "node" | "python";
  readonly entrypoint: string;
  /** Handlers by their node type without the name of the package, or the list of both where they are the same. */
  readonly handlers: readonly string[];
  /** Paths inside the package. */
  readonly files: Readonly<Record<string, string>>;
  readonly config?: object;
}

export function writePackage(root: string, sample: SamplePackage): string {
  const { name = "sample", version = "1.0.0", runtime, entrypoint, handlers, files, config } = sample;
  const dir = path.join(root, name, version);
  const usual = { status: "published", category: "Tests", adapter: "main", schema: {}, ...(config && { config }) };
  const manifest = {
    schemaVersion: "1.0.0",
    name,
    version,
    description: "",
    adapters: [{ name: "main", entrypoint, capabilities: handlers.map((handler) => `${name}.${handler}`) }],
    ...(runtime === "node" ? { node: { requires: ">=22" } } : { python: { requires: ">=3.10" } }),
    nodes: handlers.map((handler) => ({ ...usual, type: `${name}.${handler}`, label: handler, handler })),
  };
  for (const [file, text] of Object.entries({ "manifest.json": JSON.stringify(manifest), ...files })) {
    mkdirSync(path.dirname(path.join(dir, file)), { recursive: true });
    writeFileSync(path.join(dir, file), text);
  }
  return dir;
}

type Written = Extract<AttemptOutcome, { type: "written" }>;

/** How an attempt ended: the payload of its last frame. */
export interface SeenOutcome {
  readonly frameType: Written["frameType"];
  readonly payload: Readonly<Record<string, unknown>>;
}

export class HostedPackages {
  readonly root: string;
  readonly reports: { readonly message: string; readonly cause: string }[] = [];
  readonly removed: string[] = [];
  /** Groups that were started and not reported as ended. */
  readonly groups = new Set<number>();
  readonly feedback: { readonly task: string; readonly input: FeedbackInput }[] = [];
  readonly attempts = new Map<string, LocalAttempt>();
  answerNext: (args: Record<string, unknown>) => MiddlewareCallAnswer = () => ({ result: {} });
  runner: HandlerRunner;
  readonly loaded: LoadedPackages;
  readonly #outcomes = new Map<string, PromiseWithResolvers<SeenOutcome>>();
  readonly #returns = new Map<string, PromiseWithResolvers<void>>();
  #wake = () => {};
  #fence = 0;

  private constructor(
    root: string,
    loaded: LoadedPackages,
    more: Pick<InProcessRunnerOptions, "outputBytesMax" | "transferFile">,
  ) {
    this.root = root;
    this.loaded = loaded;
    this.runner = createInProcessRunner(
      {
        attemptFinished: (attempt, outcome) => {
          const { frameType, payload } = outcome as Written;
          this.#outcome(attempt.task).resolve({ frameType, payload: JSON.parse(payload) as SeenOutcome["payload"] });
        },
        handlerReturned: (attempt) => this.#return(attempt.task).resolve(),
        feedbackReceived: (attempt, input) => {
          this.feedback.push({ task: attempt.task, input });
          this.#wake();
        },
        nextCalled: (_, { argumentsJson }, answer) => {
          answer(this.answerNext(JSON.parse(argumentsJson) as Record<string, unknown>));
          return () => {};
        },
        vendorFrameSent: () => true,
        resourceRemoved: (resource, reason) => this.removed.push(`${resource} ${reason}`),
        problemReported: ({ message, cause }) => this.#report(message, cause),
        healthChanged: () => {},
      },
      {
        tenant: "acme",
        loadedPackages: loaded,
        workRoot: path.join(root, ".work"),
        resourceDir: path.join(root, ".kept"),
        resources: { ...resourceDefaults, workerName: "box" },
        environment: realEnvironment,
        ...more,
      },
    );
  }

  static async open(
    samples: readonly SamplePackage[],
    more: Partial<HostingSettings> & Pick<InProcessRunnerOptions, "outputBytesMax" | "transferFile"> = {},
  ): Promise<HostedPackages> {
    const root = mkdtempSync(path.join(tmpdir(), "hosts-"));
    for (const sample of samples) writePackage(root, sample);
    return HostedPackages.openFolder(root, more);
  }

  /** Packages that are there already. The folder is removed at the end. */
  static async openFolder(
    root: string,
    more: Partial<HostingSettings> & Pick<InProcessRunnerOptions, "outputBytesMax" | "transferFile"> = {},
  ): Promise<HostedPackages> {
    const { outputBytesMax, transferFile, ...settings } = more;
    const seen: HostedPackages[] = [];
    const groups = new Set<number>();
    const early: { message: string; cause: unknown }[] = [];
    const hosts = new HostSet(
      {
        environment: realEnvironment,
        groupStarted: (pid) => groups.add(pid),
        groupEnded: (pid) => groups.delete(pid),
        reportProblem: (problem) =>
          seen[0] === undefined ? early.push(problem) : seen[0].#report(problem.message, problem.cause),
      },
      {
        hostsNode: true,
        python: "python3",
        env: { PATH: process.env["PATH"] ?? "" },
        execMode: "auto",
        parallelMax: 8,
        cancelGraceMs: 300,
        ...settings,
      },
    );
    const packages = new HostedPackages(root, await loadPackages(root, hosts), {
      ...(outputBytesMax !== undefined && { outputBytesMax }),
      ...(transferFile !== undefined && { transferFile }),
    });
    Object.assign(packages, { groups });
    seen.push(packages);
    for (const { message, cause } of early) packages.#report(message, cause);
    return packages;
  }

  /** Starts an attempt of `package.handler`. */
  start(nodeType: string, task: string, params: object = {}, part: object = {}): LocalAttempt {
    const at = nodeType.lastIndexOf(".");
    const names = { run_id: "r", task_id: task, node_id: "n", node_type: nodeType, package_name: nodeType.slice(0, at) };
    const dispatch = { ...names, package_version: "1.0.0", parameters: params, constraints: {}, ...part };
    const attempt = createAttempt(dispatch as DispatchPayload, ++this.#fence, 0);
    attempt.phase = "running";
    this.attempts.set(task, attempt);
    this.runner.start(attempt);
    return attempt;
  }

  outcome(task: string): Promise<SeenOutcome> {
    return this.#outcome(task).promise;
  }

  /** Resolves once its handler has returned, or its process is gone. */
  returned(task: string): Promise<void> {
    return this.#return(task).promise;
  }

  run(nodeType: string, task: string, params: object = {}, part: object = {}): Promise<SeenOutcome> {
    this.start(nodeType, task, params, part);
    return this.outcome(task);
  }

  /** Resolves once something holds of what was seen; looked at after each piece of feedback and each report. */
  async until(isSo: () => boolean): Promise<void> {
    while (!isSo())
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
  }

  /** All text that a task wrote to a channel. */
  text(task: string, channel: string): string {
    return this.feedback
      .filter((one) => one.task === task)
      .flatMap(({ input }) => input.chunks ?? [])
      .filter((chunk) => chunk.channel === channel)
      .map(({ text }) => text ?? "")
      .join("");
  }

  async close(): Promise<void> {
    await this.runner.close();
    rmSync(this.root, { recursive: true, force: true });
  }

  #report(message: string, cause: unknown): void {
    this.reports.push({ message, cause: String(cause) });
    this.#wake();
  }

  #outcome(task: string): PromiseWithResolvers<SeenOutcome> {
    let outcome = this.#outcomes.get(task);
    if (outcome === undefined) this.#outcomes.set(task, (outcome = Promise.withResolvers()));
    return outcome;
  }

  #return(task: string): PromiseWithResolvers<void> {
    let returned = this.#returns.get(task);
    if (returned === undefined) this.#returns.set(task, (returned = Promise.withResolvers()));
    return returned;
  }
}
