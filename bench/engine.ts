// `npm run bench -- engine`: full task lives (submit, grant, ack, result, successor) per second on sqlite with FULL sync, beside a bare
// loop that writes the same rows in the same run, on an empty store and on one with many finished tasks.

import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { BareLoop, recordWrites, type Tape } from "./bare-loop.ts";
import { EngineLoad } from "./engine-load.ts";
import { median, progress, readOption, spread, whole } from "./figures.ts";

interface Round {
  readonly engine: number;
  readonly bare: number;
  readonly commits: number;
}

interface Bed {
  readonly load: EngineLoad;
  readonly bare: BareLoop;
}

export async function engineBench(argv: readonly string[]): Promise<void> {
  const rounds = readOption(argv, "rounds", 7);
  const tasks = readOption(argv, "tasks", 20_000);
  const history = readOption(argv, "history", 1_000_000);
  const shape = { length: readOption(argv, "chain", 10), inFlight: readOption(argv, "in-flight", 500) };
  const dir = mkdtempSync(join(tmpdir(), "astra-bench-"));
  try {
    console.log(
      `engine bench: chains of ${shape.length}, ${shape.inFlight} tasks in flight, ${whole(tasks)} tasks a round, ${rounds} rounds, node ${process.version}`,
    );
    const full = await makeBed(join(dir, "full.db"), shape, history);
    const empty: Round[] = [];
    const filled: Round[] = [];
    let tape: Tape | null = null;
    for (let round = 0; round < rounds; round++) {
      const fresh = await makeBed(join(dir, `empty-${round}.db`), shape, shape.inFlight);
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
    console.log(`growth: engine with history / engine empty = ${flat.toFixed(3)} (goal: within 10 %)`);
    if (tape !== null) explain(tape, tasks);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

/** A store with that many finished tasks, made by the engine itself, and a copy of it for the bare loop. */
async function makeBed(file: string, shape: { length: number; inFlight: number }, history: number): Promise<Bed> {
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
  const copy = `${file}.bare`;
  copyFileSync(file, copy);
  const load = new EngineLoad(file, shape);
  await load.start();
  await load.run(shape.inFlight);
  return { load, bare: new BareLoop(copy) };
}

async function closeBed(bed: Bed): Promise<void> {
  await bed.load.stop();
  bed.bare.close();
}

async function measure(bed: Bed, tasks: number): Promise<{ round: Round; tape: Tape }> {
  const tape = await recordWrites(() => bed.load.run(tasks));
  const replay = bed.bare.load(tape);
  const bareFrom = performance.now();
  replay();
  const bareMs = performance.now() - bareFrom;
  const commits = bed.load.store.stats().commits;
  const engineFrom = performance.now();
  const ended = await bed.load.run(tasks);
  const engineMs = performance.now() - engineFrom;
  const round = {
    engine: (ended / engineMs) * 1000,
    bare: (ended / bareMs) * 1000,
    commits: ((bed.load.store.stats().commits - commits) / engineMs) * 1000,
  };
  return { round, tape };
}

function show(what: string, rounds: readonly Round[]): void {
  const [engine, bare] = [rounds.map((one) => one.engine), rounds.map((one) => one.bare)];
  const ratio = median(rounds.map((one) => one.engine / one.bare));
  console.log(
    `${what}: engine ${whole(median(engine))} task lives/s (${spread(engine)}), bare loop ${whole(median(bare))} (${spread(bare)}), ratio ${ratio.toFixed(2)} (goal >= 0.60), ${whole(median(rounds.map((one) => one.commits)))} commits/s`,
  );
}

/** Which rows one task costs, counted from what was really written. */
function explain(tape: Tape, tasks: number): void {
  const counts = new Map<string, number>();
  let statements = 0;
  for (const transaction of tape.transactions)
    for (const { sql } of transaction) {
      const name = /^(INSERT INTO|UPDATE|DELETE FROM) "?(\w+)/.exec(sql);
      const label = name === null ? sql.slice(0, 20) : `${name[1]?.split(" ")[0]?.toLowerCase()} ${name[2]}`;
      counts.set(label, (counts.get(label) ?? 0) + 1);
      statements++;
    }
  console.log(
    `written per task: ${(statements / tasks).toFixed(2)} statements, ${tape.transactions.length} commits for ${whole(tasks)} tasks`,
  );
  for (const [label, count] of [...counts].sort((a, b) => b[1] - a[1]))
    console.log(`  ${(count / tasks).toFixed(3).padStart(7)}  ${label}`);
}
