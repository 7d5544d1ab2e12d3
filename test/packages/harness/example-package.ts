// One of the example packages in a real child host, as a worker runs it: its files alone, parameters with the defaults of its schemas, and a
// store of files in place of the scheduler's. No test lives here.

import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Hex } from "@astraflow/archive";
import { findSchemaProblem, withDefaults } from "@astraflow/graph";
import type { Manifest } from "@astraflow/protocol";
import { HostedPackages } from "@astraflow/runtime/testing";
import { onTestFinished } from "vitest";
import { repositoryRoot } from "../../../scripts/repository-files.ts";

export const exampleFolder = (name: string): string => join(repositoryRoot, "examples/packages", name, "1.0.0");

/** A module of a package, whose own address tests may not write. */
export const importExample = (name: string, file: string): Promise<unknown> => import(join(exampleFolder(name), file));

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "example-package-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

interface Ended {
  readonly result: Readonly<Record<string, unknown>>;
  readonly artifacts: readonly { readonly resource_id: string }[];
}

interface TaskFailure {
  readonly code: string;
  readonly message: string;
}

export class ExamplePackage {
  readonly #hosted: HostedPackages;
  readonly #nodes: Manifest["nodes"];
  /** The folder of the stored files. */
  readonly #stored: string;
  #tasks = 0;

  private constructor(hosted: HostedPackages, nodes: Manifest["nodes"], stored: string) {
    this.#hosted = hosted;
    this.#nodes = nodes;
    this.#stored = stored;
  }

  /** `env`: the settings of the package in the worker's environment. */
  static async open(name: string, env: Readonly<Record<string, string>> = {}): Promise<ExamplePackage> {
    const folder = exampleFolder(name);
    const files = Object.fromEntries(readdirSync(folder).map((file) => [file, readFileSync(join(folder, file), "utf8")]));
    const manifest = JSON.parse(files["manifest.json"] ?? "") as Manifest;
    const stored = makeFolder();
    const hosted = await HostedPackages.open([{ name, runtime: "node", entrypoint: "", handlers: [], files }], {
      env: { PATH: process.env["PATH"] ?? "", ...env },
      transferFile: async (transfer) => {
        const { path: file, type } = transfer;
        const resourceId = type === "upload" ? `stored-${readdirSync(stored).length}` : transfer.resourceId;
        const [from, to] = type === "upload" ? [file, join(stored, resourceId)] : [join(stored, resourceId), file];
        copyFileSync(from, to);
        const filename = type === "upload" ? transfer.filename : resourceId;
        const downloadUrl = `/api/v1/resources/${resourceId}/download`;
        return { resourceId, downloadUrl, filename, sizeBytes: statSync(to).size, sha256: sha256Hex(readFileSync(to)) };
      },
    });
    onTestFinished(() => hosted.close());
    return new ExamplePackage(hosted, manifest.nodes, stored);
  }

  /** The bytes of a stored file. */
  readStored(file: unknown): Buffer {
    return readFileSync(join(this.#stored, (file as { resourceId: string }).resourceId));
  }

  /** Starts a task and gives its id. Parameters that the scheduler would refuse are a mistake of the test. */
  start(nodeType: string, params: object, part: object = {}): string {
    const { parameters } = this.#nodeOf(nodeType).schema;
    const filled = withDefaults(parameters, params) as object;
    const problem = findSchemaProblem(parameters, filled);
    if (problem !== null) throw new Error(`parameters of ${nodeType}: ${problem.message}`);
    const task = `task-${this.#tasks++}`;
    this.#hosted.start(nodeType, task, { ...filled, ...part });
    return task;
  }

  /** How a task ended; rejects with its code and message where it failed. */
  async end(task: string, nodeType: string): Promise<Ended> {
    const { frameType, payload } = await this.#hosted.outcome(task);
    if (frameType === "biz.exec.error") {
      const { code, message } = payload as unknown as TaskFailure;
      throw Object.assign(new Error(message), { code });
    }
    const { result, artifacts = [] } = payload as unknown as Pick<Ended, "result"> & Partial<Ended>;
    const problem = findSchemaProblem(this.#nodeOf(nodeType).schema.results, result);
    if (problem !== null) throw new Error(`results of ${nodeType}: ${problem.message}`);
    return { result, artifacts };
  }

  run(nodeType: string, params: object, part: object = {}): Promise<Ended> {
    return this.end(this.start(nodeType, params, part), nodeType);
  }

  async result(nodeType: string, params: object, part: object = {}): Promise<Ended["result"]> {
    return (await this.run(nodeType, params, part)).result;
  }

  /** Ends a task as a cancel does, and resolves once its handler has returned. */
  async cancel(task: string): Promise<void> {
    this.#hosted.attempts.get(task)?.stopSignal.stop(new Error("cancelled"));
    await this.#hosted.returned(task);
  }

  get feedback() {
    return this.#hosted.feedback;
  }

  text(task: string, channel: string): string {
    return this.#hosted.text(task, channel);
  }

  until(isSo: () => boolean): Promise<void> {
    return this.#hosted.until(isSo);
  }

  #nodeOf(type: string): Manifest["nodes"][number] {
    const found = this.#nodes.find((node) => node.type === type);
    if (found === undefined) throw new Error(`the package has no node ${type}`);
    return found;
  }
}
