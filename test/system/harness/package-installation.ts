// A scheduler's repository of packages over REST, and a worker that installs from it.

import { join } from "node:path";
import type { SignedPackage } from "@astraflow/archive";
import type { CommandDetail, PackageVersion } from "@astraflow/protocol";
import { SchedulerApi } from "./installation.ts";
import { makeTemporaryFolder, pollUntil, spawnAstra } from "./processes.ts";

const headers = { authorization: "Bearer dev-token" };

export class RepositoryApi extends SchedulerApi {
  readonly #http: string;
  constructor(http: string) {
    super(http);
    this.#http = http;
  }

  async publish(signed: SignedPackage): Promise<{ status: number; body: PackageVersion & { error?: string } }> {
    const form = new FormData();
    form.set("signature", JSON.stringify(signed.signature));
    form.set("file", new Blob([new Uint8Array(signed.archive)]), "a.cwx");
    const response = await fetch(`${this.#http}/api/v1/packages`, { method: "POST", headers, body: form });
    return { status: response.status, body: (await response.json()) as PackageVersion };
  }

  async putResource(of: { readonly name: string; readonly version: string }, path: string, bytes: string): Promise<number> {
    const response = await fetch(`${this.#http}/api/v1/packages/${of.name}/${of.version}/resources/${path}`, {
      method: "PUT",
      headers: { ...headers, "content-type": "application/octet-stream" },
      body: bytes,
    });
    return response.status;
  }

  /** Sends a command and waits for its end. */
  async command(worker: string, body: object): Promise<CommandDetail> {
    const sent = await this.send("POST", `/api/v1/workers/${worker}/commands`, body);
    const { commandId } = (await sent.json()) as { commandId: string };
    return pollUntil("the end of the command", async () => {
      const command = await this.get<CommandDetail>(`/api/v1/commands/${commandId}`);
      return command.status === "sent" ? null : command;
    });
  }
}

/** A worker named `box` that trusts the keys of its scheduler. */
export async function startInstallingWorker(ws: string, flags: readonly string[] = []) {
  const dataDir = join(makeTemporaryFolder(), "worker");
  const worker = spawnAstra(["worker", "--package-keys", "scheduler", ...flags], {
    ASTRA_WORKER_SCHEDULER_WS_URL: ws,
    ASTRA_WORKER_TENANT: "default",
    ASTRA_WORKER_AUTH_TOKEN: "dev-token",
    ASTRA_WORKER_WORKER_NAME: "box",
    ASTRA_WORKER_DATA_DIR: dataDir,
    ASTRA_WORKER_LOG_LEVEL: "warn",
  });
  await worker.ready();
  return { worker, dataDir };
}
