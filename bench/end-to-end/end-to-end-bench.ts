// `npm run bench -- slice`: tasks end to end over real sockets. A scheduler and a worker run as separate processes, runs are submitted over REST; a plain
// WebSocket echo between two processes is measured alternately with them.

import { closeSync, fdatasyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  type ChildProgram,
  loadAverage,
  readUsage,
  startProgram,
  stopProgram,
  waitForMessage,
} from "../harness/child-programs.ts";
import {
  formatInteger,
  formatRange,
  median,
  percentile,
  percentiles,
  readNumberOption,
  recordFigures,
  roundStatistics,
  showProgress,
} from "../harness/statistics.ts";
import type { WriteCounts } from "./count-sqlite-writes.ts";
import { type EndToEndOptions, type EndToEndRound, Installation, profileFlags } from "./installation.ts";
import { chainRequest, type RunSubmitter } from "./run-submitter.ts";
import type { EchoRequest, EchoResult } from "./websocket-echo.ts";

interface EchoRound {
  readonly rate: number;
  readonly serverUs: number;
  readonly clientUs: number;
}

const echoInFlight = 64;
const writesFile = fileURLToPath(new URL("./count-sqlite-writes.ts", import.meta.url));
const echoFile = fileURLToPath(new URL("./websocket-echo.ts", import.meta.url));

export async function endToEndBench(argv: readonly string[]): Promise<void> {
  const options = readOptions(argv);
  const dir = mkdtempSync(join(tmpdir(), "astra-slice-"));
  const { chain, runs, maxParallel, threads, rounds } = options;
  console.log(
    `slice bench: ${rounds} rounds of ${formatInteger(runs)} chains of ${chain} (${formatInteger(runs * chain)} tasks), max_parallel ${maxParallel}, --threads ${threads}, --node-host ${options.nodeHost ?? "as by default"}, ${describeFraming(options)}, sqlite, node ${process.version}, load ${loadAverage()}`,
  );
  try {
    await measureRounds(options, dir);
    await countWritesPerTask(options, join(dir, "writes"));
    console.log(`load average at the end ${loadAverage()}`);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function readOptions(argv: readonly string[]): EndToEndOptions {
  const at = argv.indexOf("--profile");
  const threads = argv.indexOf("--threads");
  return {
    rounds: readNumberOption(argv, "rounds", 5),
    chain: readNumberOption(argv, "chain", 40),
    runs: readNumberOption(argv, "runs", 400),
    maxParallel: readNumberOption(argv, "max-parallel", 128),
    threads: threads >= 0 && argv[threads + 1] === "0" ? 0 : 1,
    nodeHost: argv.includes("--node-host") ? argv[argv.indexOf("--node-host") + 1] : undefined,
    singles: readNumberOption(argv, "singles", 200),
    chains: readNumberOption(argv, "chains", 20),
    echoMs: readNumberOption(argv, "echo-ms", 2_000),
    isPlain: argv.includes("--plain"),
    profile: at < 0 ? null : (argv[at + 1] ?? null),
  };
}

async function measureRounds(options: EndToEndOptions, dir: string): Promise<void> {
  const installation = new Installation(join(dir, "slice"));
  const server = startProgram("echo server", [echoFile, "server"], process.env, []);
  const client = startProgram("echo client", [echoFile, "client"], process.env, []);
  try {
    const [port] = await Promise.all([waitForMessage<number>(server, 10_000), waitForMessage(client, 10_000)]);
    await installation.open(options, profileFlags(options));
    const ask = { port, inFlight: echoInFlight, ms: options.echoMs };
    const body = chainRequest(options.chain);
    await installation.runRound(body, Math.ceil(options.runs / 2));
    await runEcho(server, client, { ...ask, ms: 500 });
    measureFsync(dir);
    await measureLatency(installation.opened.submitter, options);

    const echoes: EchoRound[] = [];
    const slices: EndToEndRound[] = [];
    for (let round = 0; round < options.rounds; round++) {
      echoes.push(await runEcho(server, client, ask));
      slices.push(await installation.runRound(body, options.runs));
      showProgress("rounds", round + 1, options.rounds);
    }
    showRounds(slices, echoes);
    recordRounds(options, slices, echoes);
  } finally {
    await Promise.all([installation.close(), stopProgram(server), stopProgram(client)]);
  }
}

async function runEcho(server: ChildProgram, client: ChildProgram, request: EchoRequest): Promise<EchoRound> {
  const before = [server, client].map(({ pid }) => readUsage(pid).cpuMs);
  const answer = waitForMessage<EchoResult>(client, request.ms + 10_000);
  client.process.send(request);
  const { trips, ms } = await answer;
  const [serverUs = 0, clientUs = 0] = [server, client].map(
    ({ pid }, at) => ((readUsage(pid).cpuMs - (before[at] ?? 0)) / trips) * 1_000,
  );
  return { rate: (trips / ms) * 1_000, serverUs, clientUs };
}

/** What every turn waits for at least once. */
function measureFsync(dir: string): void {
  const file = openSync(join(dir, "fsync"), "w");
  const page = Buffer.alloc(4_096);
  const times = Array.from({ length: 100 }, () => {
    writeSync(file, page);
    const from = performance.now();
    fdatasyncSync(file);
    return performance.now() - from;
  });
  closeSync(file);
  recordFigures("fdatasyncMs", percentiles(times));
  console.log(
    `fdatasync of one page here: p50 ${percentile(times, 0.5).toFixed(2)} ms, p99 ${percentile(times, 0.99).toFixed(2)} ms`,
  );
}

/** On an idle system, one run after the other. */
async function measureLatency(submitter: RunSubmitter, options: EndToEndOptions): Promise<void> {
  const series = async (body: string, times: number) => {
    const measured: { ms: number; looks: number }[] = [];
    for (let at = 0; at < times + 5; at++) {
      const one = await submitter.runPollingAtOnce(body);
      if (at >= 5) measured.push(one);
    }
    return measured;
  };
  const say = (values: readonly number[]) =>
    `p50 ${percentile(values, 0.5).toFixed(2)} ms, p99 ${percentile(values, 0.99).toFixed(2)} ms, worst ${Math.max(...values).toFixed(2)} ms`;
  const singles = await series(chainRequest(1), options.singles);
  console.log(
    `submit -> result seen, one run of one task at a time, ${options.singles} times: ${say(singles.map(({ ms }) => ms))} (${median(singles.map(({ looks: polls }) => polls))} looks each)`,
  );
  const chains = (await series(chainRequest(options.chain), options.chains)).map(({ ms }) => ms);
  recordFigures("latencyMs", {
    frames: describeFraming(options),
    oneTask: percentiles(singles.map(({ ms }) => ms)),
    chain: { steps: options.chain, ...percentiles(chains) },
  });
  console.log(
    `one chain of ${options.chain} alone, ${options.chains} times: ${say(chains)}; ${(median(chains) / options.chain).toFixed(2)} ms a step (goal for 40: <= 250 ms)`,
  );
}

const describeFraming = ({ isPlain }: Pick<EndToEndOptions, "isPlain">): string => (isPlain ? "a frame per task" : "batches");

function recordRounds(options: EndToEndOptions, slices: readonly EndToEndRound[], echoes: readonly EchoRound[]): void {
  const of = (name: keyof EndToEndRound) => roundStatistics(slices.map((one) => one[name]));
  recordFigures("slices", {
    frames: describeFraming(options),
    tasksPerRound: options.runs * options.chain,
    tasksPerSecond: of("rate"),
    tasksPerSecondByStore: of("storeRate"),
    echoesPerSecond: roundStatistics(echoes.map(({ rate }) => rate)),
    sliceToEcho: roundStatistics(slices.map(({ rate }, at) => rate / (echoes[at]?.rate ?? Number.NaN))),
    goalMin: 0.5,
    schedulerUsPerTask: of("schedulerUs"),
    socketThreadUsPerTask: of("mainUs"),
    workerUsPerTask: of("workerUs"),
    turnsPerTask: of("turns"),
    eventRowsPerTask: of("eventRows"),
    diskBytesPerTask: of("diskBytes"),
  });
}

function showRounds(slices: readonly EndToEndRound[], echoes: readonly EchoRound[]): void {
  const of = (name: keyof EndToEndRound) => slices.map((one) => one[name]);
  const us = (values: readonly number[]) =>
    `${median(values).toFixed(1)} us (${Math.min(...values).toFixed(1)}..${Math.max(...values).toFixed(1)})`;
  const rates = echoes.map(({ rate }) => rate);
  const ratios = slices.map(({ rate }, at) => rate / (rates[at] ?? Number.NaN));
  console.log(
    `slice     ${formatInteger(median(of("rate"))).padStart(7)} tasks/s (${formatRange(of("rate"))}) from the first submit to the last end seen; ${formatInteger(median(of("storeRate")))} (${formatRange(of("storeRate"))}) from the first grant to the last end by the store's clock`,
  );
  console.log(
    `bare echo ${formatInteger(median(rates)).padStart(7)} round trips/s (${formatRange(rates)}), ${echoInFlight} in flight, 600 bytes of JSON`,
  );
  console.log(
    `ratio slice/echo ${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}..${Math.max(...ratios).toFixed(2)}; goal >= 0.50)`,
  );
  console.log(
    `processor time a task: scheduler ${us(of("schedulerUs"))}, of it ${us(of("mainUs"))} in the thread with the sockets; worker ${us(of("workerUs"))}; beside them the submitter ${us(of("submitterUs"))}`,
  );
  console.log(
    `processor time an echo: server ${us(echoes.map(({ serverUs }) => serverUs))}, client ${us(echoes.map(({ clientUs }) => clientUs))}`,
  );
  console.log(
    `turns a task ${median(of("turns")).toFixed(4)}, submits take ${Math.round(median(of("submitShare")) * 100)} % of a round; kept a task: 1 task row, ${median(of("eventRows")).toFixed(3)} event rows; ${formatInteger(median(of("diskBytes")))} bytes to disk a task`,
  );
}

/** What is written per task, counted inside a scheduler of its own: counting costs time, so no figure above comes from here. */
async function countWritesPerTask(options: EndToEndOptions, dir: string): Promise<void> {
  const file = `${dir}.jsonl`;
  process.env["BENCH_WRITES_FILE"] = file;
  const installation = new Installation(dir);
  const { runs } = options;
  try {
    await installation.open({ ...options, profile: null }, ["--import", writesFile]);
    await installation.runRound(chainRequest(options.chain), runs);
  } finally {
    await installation.close();
    delete process.env["BENCH_WRITES_FILE"];
  }
  const tasks = runs * options.chain;
  const lines = readFileSync(file, "utf8").trim().split("\n");
  const counts = lines.flatMap((line) => Object.entries(JSON.parse(line) as WriteCounts));
  const sum = (pick: "rows" | "statements") => counts.reduce((all, [, count]) => all + count[pick], 0) / tasks;
  recordFigures("written", {
    frames: describeFraming(options),
    tasks,
    rowsPerTask: sum("rows"),
    statementsPerTask: sum("statements"),
  });
  console.log(
    `written per task (${formatInteger(tasks)} tasks in a round that was not timed): ${sum("rows").toFixed(3)} rows, ${sum("statements").toFixed(3)} statements`,
  );
  const worthSaying = counts.filter(([, { statements }]) => statements / tasks >= 0.001);
  for (const [label, { rows, statements }] of worthSaying.sort((a, b) => b[1].rows - a[1].rows))
    console.log(
      `  ${(rows / tasks).toFixed(3).padStart(7)} rows, ${(statements / tasks).toFixed(3).padStart(7)} statements  ${label}`,
    );
}
