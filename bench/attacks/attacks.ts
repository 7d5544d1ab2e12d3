// `npm run attack`: starts a scheduler and a worker on loopback, sends them every attack and prints what was seen. `-- --quick` leaves out those that
// take minutes or gigabytes. The exit code is 1 if the scheduler did not withstand one.

import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type SchedulerReady, startScheduler, startWorker, stopProgram, waitUntilReady } from "../harness/child-programs.ts";
import type { Attack, AttackOutcome, AttackTarget } from "./attack.ts";
import { floodAttacks } from "./flood-attacks.ts";
import { handlerAttacks } from "./handler-attacks.ts";
import { memoryAttacks } from "./memory-attacks.ts";
import { requestAttacks } from "./request-attacks.ts";
import { sessionAttacks } from "./session-attacks.ts";
import { storeAttacks } from "./store-attacks.ts";

const attacks: readonly Attack[] = [
  ...requestAttacks,
  ...sessionAttacks,
  ...handlerAttacks,
  ...storeAttacks,
  ...floodAttacks,
  ...memoryAttacks,
];

export const quickAttackNames = attacks.filter(({ isQuick }) => isQuick).map(({ name }) => name);

export interface AttackResult extends AttackOutcome {
  readonly name: string;
}

/** Sends the attacks one after the other to one scheduler, so that each also meets what the earlier ones left behind. */
export async function sendAttacks(options: {
  readonly isQuickOnly: boolean;
  onResult(result: AttackResult): void;
}): Promise<readonly AttackResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "astra-attacks-"));
  const results: AttackResult[] = [];
  try {
    await withTarget(folder, async (target) => {
      for (const attack of attacks.filter(({ isQuick }) => isQuick || !options.isQuickOnly)) {
        const result = { name: attack.name, ...(await attack.send(target)) };
        results.push(result);
        options.onResult(result);
      }
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return results;
}

const grants = {
  admin: "admin+view+read+edit+operate",
  read: "read+view",
  metrics: "metrics",
  operate: "view+operate+edit+read",
  worker: "worker",
} as const;

async function withTarget(folder: string, use: (target: AttackTarget) => Promise<void>): Promise<void> {
  const secret = (name: string, text: string): string => {
    const file = join(folder, name);
    writeFileSync(file, text, { mode: 0o600 });
    return file;
  };
  const password = randomBytes(18).toString("base64");
  const tokens = Object.fromEntries(
    Object.keys(grants).map((name) => [name, randomBytes(24).toString("hex")]),
  ) as AttackTarget["tokens"];
  const tokenFlags = Object.entries(grants).flatMap(([name, granted]) => [
    "--token",
    `${name}:${granted}=@${secret(`${name}.token`, tokens[name as keyof typeof grants])}`,
  ]);
  const dataDir = join(folder, "data");
  const flags = [...tokenFlags, "--admin-password-file", secret("admin.password", password)];
  const scheduler = startScheduler({ dir: dataDir, threads: 1, nodeFlags: [], flags });
  try {
    const { http, ws } = await waitUntilReady<SchedulerReady>(scheduler);
    const worker = startWorker({ dir: join(folder, "worker"), url: ws, maxParallel: 8, nodeFlags: [] });
    try {
      await waitUntilReady(worker);
      await use({ http, ws, pid: scheduler.pid, dataDir, tokens, password });
    } finally {
      await stopProgram(worker);
    }
  } finally {
    await stopProgram(scheduler);
  }
}

/** Sends them and prints each outcome; gives how many the scheduler did not withstand. */
export async function printAttacks(options: { readonly isQuickOnly: boolean }): Promise<number> {
  const results = await sendAttacks({
    ...options,
    onResult: ({ name, seen, problem }) =>
      console.log(
        `${problem === null ? "withstood" : "BROKEN   "}  ${name}\n           ${seen}${problem === null ? "" : `\n           ${problem}`}`,
      ),
  });
  const broken = results.filter(({ problem }) => problem !== null).length;
  console.log(`${results.length - broken} of ${results.length} attacks withstood`);
  return broken;
}

if (import.meta.main) process.exitCode = (await printAttacks({ isQuickOnly: process.argv.includes("--quick") })) === 0 ? 0 : 1;
