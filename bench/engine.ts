// `npm run bench -- engine`: full task lives (submit, grant, ack, result, successor) per second on sqlite with FULL sync, beside a bare
// loop that writes the same rows in the same run, on an empty store and on one with many finished tasks.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BareLoop, Replay, recordWrites, type Tape } from "./bare-loop.ts";
import { EngineLoad } from "./engine-load.ts";
import { median, noteFigures, progress, range, readOption, spread, whole } from "./figures.ts";

interface Round {
  readonly engine: number;
  readonly bare: number;
  readonly replay: number;
  readonly commits: number;
}

interface Bed {
  readonly load: EngineLoad;
  readonly bare: BareLoop;
  readonly replay: Replay;
}

interface Shape {
  readonly length: number;
  readonly inFlight: number;
}

export async function engineBench(argv: readonly string[]): Promise<void> {
  const rounds = readOption(argv, "rounds", 7);
  const tasks = readOption(argv, "tasks", 20_000);
  const history = readOption(argv, "history", 1_000_000);
  const shape = { length: readOption(argv, "chain", 10), inFlight: readOption(argv, "in-flight", 100) };
  const dir = mkdtempSync(join(tmpdir(), "astra-bench-"));
  try {
    console.log(
      `engine bench: chains of ${shape.length}, ${shape.inFlight} tasks in flight, ${whole(tasks)} tasks a round, ${rounds} rounds, node ${process.version}`,
    );
    const full = await makeBed(join(dir, "full.db"), shape, history);
    await measure(full, tasks);
    const empty: Round[] = [];
    const filled: Round[] = [];
    let tape: Tape | null = null;
    for (let round = 0; round < rounds; round++) {
      const file = join(dir, `empty-${round}.db`);
      const fresh = await makeBed(file, shape, shape.inFlight);
      empty.push((await measure(fresh, tasks)).round);
      await closeBed(fresh);
      const measured = await measure(full, tasks);
      filled.push(measured.round);
      tape = measured.tape;
      progress("rounds", round + 1, rounds);
    }
    await closeBed(full);
    show("empty store", empty);
    show(`${whole(history)} finished tasks stored`, filled);
    const flat = median(filled.map((one) => one.engine)) / median(empty.map((one) => one.engine));
    noteFigures("growth", { engineWithHistoryToEmpty: flat, goalMin: 0.9 });
    console.log(`growth: engine with history / engine empty = ${flat.toFixed(3)} (goal: within 10 %)`);
    if (tape !== null) explain(tape, tasks);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A store with that many finished tasks, made by the engine itself, and copies of it for the two loops. */
async function makeBed(file: string, shape: Shape, history: number): Promise<Bed> {
  const before = new EngineLoad(file, shape);
  await before.start();
  const step = 20_000;
  for (let done = 0; done < history; done += step) {
    await before.run(Math.min(step, history - done));
    if (history > step) progress("filling the store", Math.min(history, done + step), history);
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
  return { load, bare: new BareLoop(`${file}.bare`, shape), replay: new Replay(`${file}.replay`) };
}

async function closeBed(bed: Bed): Promise<void> {
  await bed.load.stop();
  bed.bare.close();
  bed.replay.close();
}

async function measure(bed: Bed, tasks: number): Promise<{ round: Round; tape: Tape }> {
  const tape = await recordWrites(() => bed.load.run(tasks));
  const play = bed.replay.load(tape);
  const replayMs = timed(play);
  bed.bare.counts.clear();
  const bareMs = timed(() => bed.bare.run(tasks));
  compare(tape.counts, bed.bare.counts, tasks);
  const commits = bed.load.store.stats().commits;
  const from = performance.now();
  const ended = await bed.load.run(tasks);
  const engineMs = performance.now() - from;
  const perSecond = (count: number, ms: number) => (count / ms) * 1000;
  return {
    round: {
      engine: perSecond(ended, engineMs),
      bare: perSecond(ended, bareMs),
      replay: perSecond(ended, replayMs),
      commits: perSecond(bed.load.store.stats().commits - commits, engineMs),
    },
    tape,
  };
}

function timed(work: () => void): number {
  const from = performance.now();
  work();
  return performance.now() - from;
}

/** The two must write the same rows, or the ratio means nothing. A few per cent of slack is for how chains fall into commits. */
function compare(engine: ReadonlyMap<string, number>, bare: ReadonlyMap<string, number>, tasks: number): void {
  for (const label of new Set([...engine.keys(), ...bare.keys()])) {
    const [ours, theirs] = [engine.get(label) ?? 0, bare.get(label) ?? 0];
    if (Math.abs(ours - theirs) > tasks * 0.05)
      throw new Error(`the bare loop is not the engine's equal: ${label} ${theirs} times, the engine ${ours}`);
  }
}

function show(what: string, rounds: readonly Round[]): void {
  const pick = (name: keyof Round) => rounds.map((one) => one[name]);
  const ratio = (name: "bare" | "replay") => median(rounds.map((one) => one.engine / one[name])).toFixed(2);
  noteFigures("stores", {
    store: what,
    engineLivesPerSecond: range(pick("engine")),
    commitsPerSecond: range(pick("commits")),
    bareLivesPerSecond: range(pick("bare")),
    replayLivesPerSecond: range(pick("replay")),
    engineToBare: range(rounds.map((one) => one.engine / one.bare)),
    engineToReplay: range(rounds.map((one) => one.engine / one.replay)),
    goalMin: 0.6,
  });
  console.log(`${what}:`);
  console.log(
    `  engine     ${whole(median(pick("engine"))).padStart(7)} task lives/s (${spread(pick("engine"))}), ${whole(median(pick("commits")))} commits/s`,
  );
  console.log(
    `  bare loop  ${whole(median(pick("bare"))).padStart(7)} (${spread(pick("bare"))}): ratio ${ratio("bare")} (goal >= 0.60)`,
  );
  console.log(
    `  replay     ${whole(median(pick("replay"))).padStart(7)} (${spread(pick("replay"))}): ratio ${ratio("replay")}, the engine's own statements with cells laid out beforehand`,
  );
}

/** Which rows one task costs, counted from what was really written. */
function explain(tape: Tape, tasks: number): void {
  const statements = [...tape.counts.values()].reduce((sum, count) => sum + count, 0);
  noteFigures("written", {
    statementsPerTask: statements / tasks,
    commits: tape.transactions.length,
    tasks,
    perTask: Object.fromEntries([...tape.counts].map(([label, count]) => [label, count / tasks])),
  });
  console.log(
    `written per task: ${(statements / tasks).toFixed(2)} statements; ${tape.transactions.length} commits for ${whole(tasks)} tasks`,
  );
  for (const [label, count] of [...tape.counts].sort((a, b) => b[1] - a[1]))
    console.log(`  ${(count / tasks).toFixed(3).padStart(7)}  ${label}`);
}
