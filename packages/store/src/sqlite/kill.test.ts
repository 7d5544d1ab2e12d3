import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { factsPerTurn, runName } from "../contract/fixtures/killable-writer.ts";
import { ManualClock } from "../contract/fixtures/memory-and-sqlite-fixtures.ts";
import { schemaVersion } from "./file/migrations.ts";
import { openSqlite } from "./store.ts";

const child = join(import.meta.dirname, "../contract/fixtures/killable-writer.ts");
let folder = "";
let file = "";

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "astra-kill-"));
  file = join(folder, "store.db");
});

afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface ChildExit {
  readonly signal: NodeJS.Signals | null;
  readonly code: number | null;
  readonly reportedTurn: number;
  readonly survived: boolean;
}

/** Runs the child until it is gone; `onTurn` may kill it from outside. */
function runChild(
  dieIn: string,
  step = 0,
  onTurn: (turns: number, kill: () => void) => void = () => undefined,
): Promise<ChildExit> {
  const { promise, resolve, reject } = Promise.withResolvers<ChildExit>();
  const process_ = spawn(process.execPath, ["--no-warnings", child, file, dieIn, String(step)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let reportedTurn = 0;
  let turns = 0;
  let survived = false;
  createInterface({ input: process_.stdout }).on("line", (line) => {
    if (line === "survived") survived = true;
    if (!line.startsWith("turn ")) return;
    reportedTurn = Number(line.slice(5));
    onTurn(++turns, () => process_.kill("SIGKILL"));
  });
  process_.on("error", reject);
  process_.on("close", (code, signal) => resolve({ code, signal, reportedTurn, survived }));
  return promise;
}

/** All of every turn up to the last, nothing of the next, and a log without gaps. Answers the last turn. */
async function checkFile(reportedTurn: number): Promise<number> {
  // A connection that may write would take the WAL with it when it closes.
  const raw = new DatabaseSync(file, { readOnly: true });
  const integrity = raw.prepare("PRAGMA integrity_check").get();
  const count = (sql: string) => Number(Object.values(raw.prepare(sql).get() ?? {})[0]);
  const counts = {
    runs: count("SELECT count(*) FROM run"),
    tasks: count("SELECT count(*) FROM task"),
    mail: count("SELECT count(*) FROM mail"),
  };
  const ended = count("SELECT count(*) FROM run WHERE phase = 3");
  raw.close();
  expect(integrity).toEqual({ integrity_check: "ok" });
  const store = openSqlite({ file, clock: new ManualClock() });
  const { lastTurn } = await store.open({ replica: "a", cluster: "kill" });
  const positions: number[] = [];
  for (let after = 0; ; ) {
    const page = await store.events({ tenant: "acme", after, limit: 500 });
    positions.push(...page.items.map((entry) => entry.position));
    if (page.items.length === 0) break;
    after = page.next;
  }
  const newest = await store.page({ page: "runs", tenant: "acme", limit: 1 });
  await store.close();

  // Every reported turn is stored; of the others, at most the one turn that was under way.
  expect(lastTurn).toBeGreaterThanOrEqual(reportedTurn);
  expect(lastTurn).toBeLessThanOrEqual(reportedTurn + 1);
  expect(counts).toEqual({ runs: lastTurn, tasks: 3 * lastTurn - Math.max(0, lastTurn - 1), mail: lastTurn });
  expect(ended).toBe(Math.max(0, lastTurn - 1));
  expect(positions).toEqual(Array.from({ length: factsPerTurn * lastTurn }, (_, at) => at + 1));
  expect(newest.items[0]?.id).toBe(lastTurn === 0 ? undefined : runName(lastTurn));
  return lastTurn;
}

describe("kill -9", () => {
  it("[S35] a SQLite store killed with kill -9 at any step of a turn holds all or nothing of that turn", {
    timeout: 120_000,
  }, async () => {
    const gained = new Set<number>();
    let last = 0;
    let step = 0;
    for (let survived = false; !survived; ) {
      const death = await runChild("turn", ++step);
      survived = death.survived;
      expect([death.signal, death.code]).toEqual(survived ? [null, 0] : ["SIGKILL", null]);
      const now = await checkFile(death.reportedTurn);
      gained.add(now - last);
      last = now;
    }

    // One whole turn before each death, and the second one only once its commit had been asked for.
    expect([...gained].sort((a, b) => a - b)).toEqual([1, 2]);
    expect(step).toBeGreaterThan(15);
  });

  it("[S35] a new SQLite file can be opened and completed after a kill -9 at any step of creating its tables", {
    timeout: 60_000,
  }, async () => {
    // Each version has a step before its tables and one before its commit; the third belongs to the next version, the first being kept.
    for (let version = 1; version <= schemaVersion; version++)
      for (const step of version < schemaVersion ? [1, 2, 3] : [1, 2]) {
        const death = await runChild("open", step);
        expect(death.signal).toBe("SIGKILL");
      }

    const death = await runChild("open", 3);
    expect(death).toMatchObject({ code: 0, survived: true, reportedTurn: 2 });
    expect(await checkFile(2)).toBe(2);
  });

  it("[S35] a SQLite store killed with kill -9 from outside at 20 moments loses no turn that it reported as committed", {
    timeout: 120_000,
  }, async () => {
    let last = 0;
    for (let round = 0; round < 20; round++) {
      const until = 1 + ((round * 37) % 23);
      const death = await runChild("never", 0, (turns, kill) => {
        if (turns >= until) kill();
      });
      expect(death.signal).toBe("SIGKILL");

      const now = await checkFile(death.reportedTurn);
      expect(now).toBeGreaterThanOrEqual(last + until);
      last = now;
    }
  });
});
