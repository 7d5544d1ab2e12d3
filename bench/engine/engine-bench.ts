// `npm run bench -- engine`: whole tasks (submit, grant, ack, result, successor) per second on sqlite with FULL sync, beside hand-written inserts of the
// same rows, on an empty store and on one with many finished tasks.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import {
  formatInteger,
  formatRange,
  median,
  readNumberOption,
  recordFigures,
  roundStatistics,
  showProgress,
} from "../harness/statistics.ts";
import { EngineLoad } from "./engine-load.ts";
import { HandWrittenInserts, type RecordedWrites, recordWrites, WriteReplay } from "./hand-written-inserts.ts";

interface EngineRound {
  readonly engine: number;
  readonly bare: number;
  readonly replay: number;
  readonly commits: number;
}

interface EngineFixture {
  readonly load: EngineLoad;
  readonly handWritten: HandWrittenInserts;
  readonly replay: WriteReplay;
}

interface LoadShape {
  readonly length: number;
  readonly inFlight: number;
}

export async function engineBench(argv: readonly string[]): Promise<void> {
  const rounds = readNumberOption(argv, "rounds", 7);
  const tasks = readNumberOption(argv, "tasks", 20_000);
  const history = readNumberOption(argv, "history", 1_000_000);
  const shape = { length: readNumberOption(argv, "chain", 10), inFlight: readNumberOption(argv, "in-flight", 100) };
  const dir = mkdtempSync(join(tmpdir(), "astra-bench-"));
  try {
    console.log(
      `engine bench: chains of ${shape.length}, ${shape.inFlight} tasks in flight, ${formatInteger(tasks)} tasks a round, ${rounds} rounds, node ${process.version}`,
    );
    const full = await createFixture(join(dir, "full.db"), shape, history);
    await measureRound(full, tasks);
    const empty: EngineRound[] = [];
    const filled: EngineRound[] = [];
    let writes: RecordedWrites | null = null;
    for (let round = 0; round < rounds; round++) {
      const file = join(dir, `empty-${round}.db`);
      const fresh = await createFixture(file, shape, shape.inFlight);
      empty.push((await measureRound(fresh, tasks)).round);
      await closeFixture(fresh);
      const measured = await measureRound(full, tasks);
      filled.push(measured.round);
      writes = measured.tape;
      showProgress("rounds", round + 1, rounds);
    }
    await closeFixture(full);
    showRounds("empty store", empty);
    showRounds(`${formatInteger(history)} finished tasks stored`, filled);
    const flat = median(filled.map((one) => one.engine)) / median(empty.map((one) => one.engine));
    recordFigures("growth", { engineWithHistoryToEmpty: flat, goalMin: 0.9 });
    console.log(`growth: engine with history / engine empty = ${flat.toFixed(3)} (goal: within 10 %)`);
    if (writes !== null) showWritesPerTask(writes, tasks);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A store with that many finished tasks, made by the engine itself, and copies of it for the two loops. */
async function createFixture(file: string, shape: LoadShape, history: number): Promise<EngineFixture> {
  const before = new EngineLoad(file, shape);
  await before.start();
  const step = 20_000;
  for (let done = 0; done < history; done += step) {
    await before.run(Math.min(step, history - done));
    if (history > step) showProgress("filling the store", Math.min(history, done + step), history);
  }
  await before.stop();
  const db = new DatabaseSync(file);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  db.close();
  copyFileSync(file, `${file}.bare`);
  copyFileSync(file, `${file}.replay`);
  const load = new EngineLoad(file, shape);
  await load.start();
  await load.run(shape.inFlight);
  return { load, handWritten: new HandWrittenInserts(`${file}.bare`, shape), replay: new WriteReplay(`${file}.replay`) };
}

async function closeFixture(fixture: EngineFixture): Promise<void> {
  await fixture.load.stop();
  fixture.handWritten.close();
  fixture.replay.close();
}

async function measureRound(fixture: EngineFixture, tasks: number): Promise<{ round: EngineRound; tape: RecordedWrites }> {
  const writes = await recordWrites(() => fixture.load.run(tasks));
  const play = fixture.replay.prepareReplay(writes);
  const replayMs = timeMs(play);
  fixture.handWritten.counts.clear();
  const bareMs = timeMs(() => fixture.handWritten.run(tasks));
  assertSameWrites(writes.counts, fixture.handWritten.counts, tasks);
  const commits = fixture.load.store.stats().commits;
  const from = performance.now();
  const ended = await fixture.load.run(tasks);
  const engineMs = performance.now() - from;
  const perSecond = (count: number, ms: number) => (count / ms) * 1000;
  return {
    round: {
      engine: perSecond(ended, engineMs),
      bare: perSecond(ended, bareMs),
      replay: perSecond(ended, replayMs),
      commits: perSecond(fixture.load.store.stats().commits - commits, engineMs),
    },
    tape: writes,
  };
}

function timeMs(work: () => void): number {
  const from = performance.now();
  work();
  return performance.now() - from;
}

/** The two must write the same rows, or the ratio means nothing. A few per cent of slack is for how chains fall into commits. */
function assertSameWrites(engine: ReadonlyMap<string, number>, bare: ReadonlyMap<string, number>, tasks: number): void {
  for (const label of new Set([...engine.keys(), ...bare.keys()])) {
    const [ours, theirs] = [engine.get(label) ?? 0, bare.get(label) ?? 0];
    if (Math.abs(ours - theirs) > tasks * 0.05)
      throw new Error(`hand-written inserts differ from the engine: ${label} ran ${theirs} times, the engine's ${ours} times`);
  }
}

function showRounds(what: string, rounds: readonly EngineRound[]): void {
  const pick = (name: keyof EngineRound) => rounds.map((one) => one[name]);
  const ratio = (name: "bare" | "replay") => median(rounds.map((one) => one.engine / one[name])).toFixed(2);
  recordFigures("stores", {
    store: what,
    engineLivesPerSecond: roundStatistics(pick("engine")),
    commitsPerSecond: roundStatistics(pick("commits")),
    bareLivesPerSecond: roundStatistics(pick("bare")),
    replayLivesPerSecond: roundStatistics(pick("replay")),
    engineToBare: roundStatistics(rounds.map((one) => one.engine / one.bare)),
    engineToReplay: roundStatistics(rounds.map((one) => one.engine / one.replay)),
    goalMin: 0.6,
  });
  console.log(`${what}:`);
  console.log(
    `  engine     ${formatInteger(median(pick("engine"))).padStart(7)} task lives/s (${formatRange(pick("engine"))}), ${formatInteger(median(pick("commits")))} commits/s`,
  );
  console.log(
    `  bare loop  ${formatInteger(median(pick("bare"))).padStart(7)} (${formatRange(pick("bare"))}): ratio ${ratio("bare")} (goal >= 0.60)`,
  );
  console.log(
    `  replay     ${formatInteger(median(pick("replay"))).padStart(7)} (${formatRange(pick("replay"))}): ratio ${ratio("replay")}, the engine's own statements with cells laid out beforehand`,
  );
}

/** Which rows one task costs, counted from what was really written. */
function showWritesPerTask(writes: RecordedWrites, tasks: number): void {
  const statements = [...writes.counts.values()].reduce((sum, count) => sum + count, 0);
  recordFigures("written", {
    statementsPerTask: statements / tasks,
    commits: writes.transactions.length,
    tasks,
    perTask: Object.fromEntries([...writes.counts].map(([label, count]) => [label, count / tasks])),
  });
  console.log(
    `written per task: ${(statements / tasks).toFixed(2)} statements; ${writes.transactions.length} commits for ${formatInteger(tasks)} tasks`,
  );
  for (const [label, count] of [...writes.counts].sort((a, b) => b[1] - a[1]))
    console.log(`  ${(count / tasks).toFixed(3).padStart(7)}  ${label}`);
}
