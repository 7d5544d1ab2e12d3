// `npm run bench -- NAME`: the benches. Each prints ratios beside a limit or another product, measured in the same run; none of them is a test.

import { endToEndBench } from "./end-to-end/end-to-end-bench.ts";
import { engineBench } from "./engine/engine-bench.ts";
import { feedbackBench } from "./feedback/feedback-bench.ts";
import { allRecordedFigures } from "./harness/statistics.ts";
import { memoryBench } from "./memory/memory-bench.ts";
import { postgresBench } from "./postgres/postgres-bench.ts";
import { retentionBench } from "./retention/retention-bench.ts";
import { sessionBench } from "./session/session-bench.ts";
import { workflowBench } from "./workflow/workflow-bench.ts";

const benches: Record<string, { what: string; run: (argv: readonly string[]) => Promise<void> }> = {
  chain: {
    what: "seconds of a run of light steps beside the bare session, 10,000 tasks side by side, pages of the list of runs",
    run: workflowBench,
  },
  engine: { what: "task lives/s of engine and sqlite beside a bare loop that writes the same rows", run: engineBench },
  feedback: {
    what: "latency of results beside a task of the same process that writes 1,000 chunks/s, for Node and Python",
    run: feedbackBench,
  },
  memory: { what: "memory of a scheduler with large runs, and with readers of events that never read", run: memoryBench },
  postgres: {
    what: "task lives/s of schedulers on PostgreSQL beside graphile-worker, growth with history, plans",
    run: postgresBench,
  },
  retention: {
    what: "removing very many finished runs beside live work: tasks/s and pauses meanwhile, size of the file after",
    run: retentionBench,
  },
  session: {
    what: "tasks/s beside a bare WebSocket echo, memory of idle sessions, reconnecting after a restart",
    run: sessionBench,
  },
  slice: { what: "tasks/s and latency over real sockets and processes beside a bare WebSocket echo", run: endToEndBench },
};

const [name = "", ...argv] = process.argv.slice(2);
const bench = benches[name];
if (bench === undefined || argv.includes("--help")) {
  console.error(
    `npm run bench -- NAME, where NAME is one of:\n${Object.entries(benches)
      .map(([key, { what }]) => `  ${key.padEnd(10)} ${what}`)
      .join("\n")}`,
  );
  process.exitCode = 2;
} else {
  await bench.run(argv);
  const figures = argv.includes("--json") ? allRecordedFigures() : null;
  if (figures !== null) console.log(JSON.stringify(figures));
}
