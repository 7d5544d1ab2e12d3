// Damage to what is on the disk: files that others can read, a database without its log, a log without its database, broken pages.

import { spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type SchedulerReady, startScheduler, stopProgram, waitUntilReady } from "../harness/child-programs.ts";
import {
  type Answer,
  type Attack,
  type AttackOutcome,
  type AttackTarget,
  countAnswers,
  demoWorkflow,
  judge,
  request,
} from "./attack.ts";

const fileModes: Attack = {
  name: "files of the data folder that other users of the machine can read",
  isQuick: true,
  async send({ dataDir }) {
    const paths = [dataDir, ...readdirSync(dataDir, { recursive: true }).map((name) => join(dataDir, String(name)))];
    // Files come and go while the scheduler works.
    const open = paths.filter((path) => existsSync(path) && (statSync(path).mode & 0o077) !== 0);
    return judge(`${paths.length} files and folders, ${open.length} open to others`, {
      [`open to others: ${open.join(", ")}`]: open.length > 0,
    });
  },
};

const databaseName = "astra.db";

/** Starts a scheduler on a damaged copy of the data; it must refuse, or hold every run. */
async function startOn(dataDir: string): Promise<"refused" | "started"> {
  const scheduler = startScheduler({ dir: dataDir, threads: 1, nodeFlags: [] });
  try {
    await waitUntilReady(scheduler);
    return "started";
  } catch {
    // It ended before it was ready: that is the refusal that is looked for.
    return "refused";
  } finally {
    await stopProgram(scheduler);
  }
}

async function startOnCopy({ dataDir }: AttackTarget, damage: (copy: string) => void): Promise<"refused" | "started"> {
  const folder = mkdtempSync(join(tmpdir(), "astra-attack-"));
  const copy = join(folder, "data");
  mkdirSync(copy, { mode: 0o700 });
  try {
    for (const name of [databaseName, `${databaseName}-wal`])
      if (existsSync(join(dataDir, name))) copyFileSync(join(dataDir, name), join(copy, name));
    damage(copy);
    return await startOn(copy);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const damages: readonly { readonly name: string; damage(copy: string): void }[] = [
  {
    name: "a copy of the database without its -wal",
    damage: (copy) => rmSync(join(copy, `${databaseName}-wal`), { force: true }),
  },
  { name: "a -wal without its database", damage: (copy) => rmSync(join(copy, databaseName)) },
  {
    name: "a database whose pages are overwritten",
    damage(copy) {
      const file = join(copy, databaseName);
      // Pages that are still in the log would hide the damage.
      const database = new DatabaseSync(file);
      database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
      database.close();
      const handle = openSync(file, "r+");
      const size = statSync(file).size;
      for (let at = 4_096; at < size; at += 8_192) writeSync(handle, Buffer.alloc(2_048, 0xa5), 0, 2_048, at);
      closeSync(handle);
    },
  },
];

const damagedStores: readonly Attack[] = damages.map(({ name, damage }) => ({
  name: `a start on ${name}`,
  isQuick: true,
  async send(target) {
    const outcome = await startOnCopy(target, damage);
    return judge(`the start was ${outcome === "refused" ? "refused" : "made"}`, {
      "it started on a damaged store": outcome === "started",
    });
  },
}));

/** A small file system in memory, where this user may make one; otherwise why not. */
function mountSmallDisk(folder: string): string | null {
  if (process.getuid?.() !== 0) return "only root can mount a small file system";
  const { status, stderr } = spawnSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], { encoding: "utf8" });
  return status === 0 ? null : `a small file system could not be mounted (${stderr.trim() || "no mount command"})`;
}

const fullDisk: Attack = {
  name: "180 starts of runs on a disk that is full, and then not",
  isQuick: true,
  async send() {
    const folder = mkdtempSync(join(tmpdir(), "astra-attack-"));
    const reason = mountSmallDisk(folder);
    if (reason !== null) {
      rmSync(folder, { recursive: true, force: true });
      return { seen: `skipped: ${reason}`, problem: null };
    }
    const scheduler = startScheduler({ dir: join(folder, "data"), threads: 1, nodeFlags: [], logFile: `${folder}.log` });
    try {
      const { http } = await waitUntilReady<SchedulerReady>(scheduler);
      return await fillAndAsk(http, folder, `${folder}.log`);
    } finally {
      await stopProgram(scheduler);
      spawnSync("umount", [folder]);
      rmSync(folder, { recursive: true, force: true });
      rmSync(`${folder}.log`, { force: true });
    }
  },
};

async function fillAndAsk(http: string, folder: string, logFile: string): Promise<AttackOutcome> {
  const body = { workflow: demoWorkflow("demo.text", { text: "x".repeat(30_000) }), clientId: "attack" };
  const start = () =>
    request({ http }, "/api/v1/runs", { token: "dev-token", body, headers: { "idempotency-key": randomUUID() } });
  const before = await start();
  const { bavail, bsize } = statfsSync(folder);
  const fill = join(folder, "fill");
  writeFileSync(fill, Buffer.alloc(Math.max(0, bavail * bsize - 16_384)));
  const answers: Answer[] = [];
  while (answers.length < 180) answers.push(...(await Promise.all([start(), start(), start()])));
  const ready = await request({ http }, "/readyz");
  const read = await request({ http }, "/api/v1/runs?limit=1", { token: "dev-token" });
  rmSync(fill);
  let after = await start();
  for (let at = 0; at < 100 && after.status !== 202; at += 1) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    after = await start();
  }
  const refused = answers.filter(({ status }) => status !== 202);
  const longestMs = Math.max(...answers.map(({ ms }) => ms));
  const lines = readFileSync(logFile, "utf8")
    .split("\n")
    .filter((line) => /"level":(40|50)/.test(line));
  const stacks = lines.filter((line) => line.includes("\\n    at ")).length;
  const seen = `${countAnswers(answers)}, at most ${longestMs.toFixed(0)} ms; /readyz ${ready.status}; a read ${read.status}; with room again ${after.status}; ${lines.length} lines of the log, ${stacks} with a stack`;
  return judge(seen, {
    "a run was refused before the disk was full": before.status !== 202,
    "the disk did not become full": refused.length === 0,
    "a refusal has another code": refused.some(({ status, code }) => status !== 503 || code !== "E.STORE.BUSY"),
    "nothing says that the disk is full": !refused.every(({ text }) => text.includes("full")),
    "/readyz said nothing": ready.status !== 503,
    "what is stored cannot be read": read.status !== 200,
    "the scheduler did not recover": after.status !== 202,
    "the refusals filled the log": lines.length > 25 || stacks > 0,
  });
}

export const storeAttacks: readonly Attack[] = [fileModes, ...damagedStores, fullDisk];
