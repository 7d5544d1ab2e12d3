// `astra workers list|drain|undrain`: who is connected, and who gets no new work.

import type { Worker } from "@astraflow/protocol";
import type { Client } from "./client.ts";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { layTable, type Terminal, tame } from "./terminal.ts";

interface Place {
  readonly client: Client;
  readonly terminal: Terminal;
  readonly json: boolean;
}

export async function listWorkers({ client, terminal, json }: Place): Promise<ExitCode> {
  const page = await client.workers();
  if (json) terminal.print(JSON.stringify(page));
  else if (page.items.length === 0) terminal.say("No worker has joined. Start one: astra worker");
  else
    for (const line of layTable([["WORKER", "STATE", "SLOTS", "SEEN", "PACKAGES", "INSTANCE"], ...page.items.map(rowOf)]))
      terminal.print(line);
  return exitCodes.ok;
}

function rowOf(worker: Worker): string[] {
  const state = worker.connected ? (worker.draining ? "draining" : "online") : "away";
  const packages = (worker.packages ?? []).map((one) => `${one.name}@${one.version}`).join(" ") || "-";
  const slots = worker.capabilities ? String(worker.capabilities.concurrency.maxParallel) : "-";
  return [tame(worker.id), state, slots, worker.lastHeartbeatAt, tame(packages), worker.instanceId ?? "-"];
}

export async function setDraining(word: string, on: boolean, { client, terminal, json }: Place): Promise<ExitCode> {
  const worker = findWorker(word, (await client.workers()).items);
  const answer = await client.setDraining(worker.instanceId ?? worker.id, on);
  if (json) terminal.print(JSON.stringify(answer));
  else terminal.print(`${tame(worker.id)} ${on ? "drains: it finishes what it holds and gets nothing new" : "gets work again"}`);
  return exitCodes.ok;
}

/** By name or instance id, shortened while unique. */
export function findWorker(word: string, workers: readonly Worker[]): Worker {
  const exact = workers.filter((worker) => worker.id === word || worker.instanceId === word);
  const matches =
    exact.length > 0 ? exact : workers.filter((worker) => worker.id.startsWith(word) || worker.instanceId?.startsWith(word));
  const [only] = matches;
  if (matches.length > 1)
    throw usageFailure(`"${word}" fits ${matches.length} workers; use the instance id.`, "astra workers list");
  if (!only)
    throw new CliFailure(
      exitCodes.notFound,
      { error: "E.NOT_FOUND", message: `No worker is called "${word}".` },
      "astra workers list",
    );
  return only;
}
