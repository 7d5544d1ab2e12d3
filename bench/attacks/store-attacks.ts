// Damage to what is on the disk: files that others can read, a database without its log, a log without its database, broken pages.

import {
  closeSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { startScheduler, stopProgram, waitUntilReady } from "../harness/child-programs.ts";
import { type Attack, type AttackTarget, judge } from "./attack.ts";

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

export const storeAttacks: readonly Attack[] = [fileModes, ...damagedStores];
