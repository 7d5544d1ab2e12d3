// A process for the kill test: writes turns on a file and says each one on stdout once it is committed. It kills itself at a given
// step of opening or of its second turn, or goes on until somebody else does. Not part of the store.

import { writeSync } from "node:fs";
import type { ChangeSet, Row, RowKey } from "@astraflow/engine";
import { rootOf } from "@astraflow/engine";
import { openSqlite } from "../sqlite/store.ts";
import { changeSet, logEntry, runRow, taskRow } from "./sample-rows.ts";

export const factsPerTurn = 3;

export const runName = (turn: number): string => `r${String(turn).padStart(6, "0")}`;

/** A turn that inserts, updates and drops, under two roots, with facts: enough kinds of statements to die between. */
function changeSetsOfTurn(turn: number): ChangeSet[] {
  const [run, last] = [runName(turn), runName(turn - 1)];
  const made = [runRow(run), taskRow(`${run}.0`, { phase: "ready", line: "l" }), taskRow(`${run}.1`), taskRow(`${run}.2`)];
  const units = [
    changeSet({
      puts: made,
      enqueued: [{ task: `${run}.0`, tenant: "acme", cost: 1 }],
      logEntries: [logEntry("acme", `run/${run}`, ["made", "readied"])],
      mail: [{ replica: "b", epoch: 1, id: `m${turn}`, body: "hello" }],
    }),
  ];
  const ended: Row[] = [
    runRow(last, { phase: "succeeded", open: 0 }),
    taskRow(`${last}.1`, { phase: "succeeded", result: `"${turn}"` }),
  ];
  const drops: RowKey[] = [`task/${last}.2`];
  if (turn > 1) units.push(changeSet({ puts: ended, deletes: drops, logEntries: [logEntry("acme", `run/${last}`, ["ended"])] }));
  else units.push(changeSet({ roots: [], logEntries: [logEntry("acme", "run/none", ["started"])] }));
  return units;
}

type KillPhase = "open" | "turn" | "never";

async function main(file: string, killPhase: KillPhase, step: number): Promise<void> {
  let isCounting = killPhase === "open";
  let steps = 0;
  const failpoint = () => {
    if (isCounting && ++steps === step) process.kill(process.pid, "SIGKILL");
  };
  const store = openSqlite({ file, clock: { wall: () => Date.now(), mono: () => performance.now() }, failpoint });
  const { lastTurn } = await store.open({ replica: "a", cluster: "kill" });
  for (let turn = lastTurn + 1; killPhase === "never" || turn <= lastTurn + 2; turn++) {
    isCounting = killPhase === "turn" && turn === lastTurn + 2;
    const units = changeSetsOfTurn(turn);
    const rows = units.flatMap((one) => [...one.roots, ...one.deletes.map(rootOf)]);
    const tx = await store.begin({ rows, claims: [], lists: [], due: 9, mail: 9, skip: [] });
    const answer = await tx.commit(turn, units);
    if (answer.outcome !== "committed") throw new Error(JSON.stringify(answer));
    writeSync(1, `turn ${turn}\n`);
  }
  writeSync(1, "survived\n");
  await store.close();
}

if (process.argv[1] === import.meta.filename) {
  const [file, dieIn, step] = process.argv.slice(2);
  if (file === undefined || dieIn === undefined) throw new Error("usage: kill-child.ts FILE open|turn|never [STEP]");
  await main(file, dieIn as KillPhase, Number(step ?? 0));
}
