// The commands of `astra` and their flags, in one place: what exists, what it is called, what it says in --help. What a command does
// lives in its own file.

import type { RunStatus } from "@astraflow/protocol";
import { Command, CommanderError, InvalidArgumentError, Option } from "commander";
import { loadCommand } from "./app-loader.ts";
import { runBench } from "./bench-command.ts";
import { type Client, createClient, readConnection } from "./client.ts";
import { runDoctor } from "./doctor-command.ts";
import { CliFailure, describeFailure, exitCodes } from "./failure.ts";
import { runFile } from "./run-command.ts";
import { cancelRun, exportRun, listRuns, showRun } from "./runs-command.ts";
import { runSim } from "./sim-command.ts";
import { createTerminal, type Output, type Terminal } from "./terminal.ts";
import { runUp } from "./up-command.ts";
import { diagnoseWorker, kickWorker, listWorkers, setDraining, showWorker } from "./workers-command.ts";

export interface CliWorld {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: NodeJS.ProcessEnv;
  /** Aborted by the first and by the second wish to stop. */
  readonly stopping: AbortSignal;
  readonly hurrying: AbortSignal;
}

interface CommonWords {
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly color: boolean;
  readonly url?: string;
  readonly token?: string;
  readonly ca?: string;
}

interface SimFlags {
  readonly seeds?: string;
  readonly seed?: number;
  readonly profile: string;
  readonly plant?: string;
  readonly jobs: number;
  readonly story?: boolean;
  readonly shrink?: boolean;
  readonly twice?: boolean;
  readonly save?: boolean;
  readonly refuseResume?: boolean;
}

/** Runs one command line and says with which code the process should end. */
export async function runProgram(argv: readonly string[], world: CliWorld): Promise<number> {
  let exitCode: number = exitCodes.ok;
  const program = buildProgram(world, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (cause) {
    // commander has written its own words by now; its help is no failure.
    if (cause instanceof CommanderError) return cause.exitCode === 0 ? exitCodes.ok : exitCodes.usage;
    if (!(cause instanceof CliFailure)) throw cause;
    world.stderr.write(describeFailure(cause, argv.includes("--json")));
    return cause.exitCode;
  }
}

function buildProgram(world: CliWorld, finish: (code: number) => void): Command {
  const program = new Command("astra")
    .description("A control plane for workers: takes work, finds the worker that can do it, follows it live, loses nothing.")
    .exitOverride()
    .configureOutput({ writeOut: (text) => void world.stdout.write(text), writeErr: (text) => void world.stderr.write(text) })
    .showHelpAfterError("Add --help to see what there is.")
    .helpCommand("help [command]", "what there is, or the words of one command");
  addStarters(program, world, finish);
  addRuns(program, world, finish);
  addWorkers(program, world, finish);
  addTools(program, world, finish);
  return program;
}

const runStatuses = ["queued", "running", "succeeded", "failed", "cancelled"] as const satisfies readonly RunStatus[];

type Add = (program: Command, world: CliWorld, finish: (code: number) => void) => void;

const addStarters: Add = (program, world, finish) => {
  withCommon(program.command("up"), ["astra up", "astra up --listen 127.0.0.1:0 --data-dir ./var", "astra up --no-demo"])
    .description("a scheduler, a worker and a demo run on this machine, for trying things out")
    .option("--listen <host:port>", "where the scheduler listens (default 127.0.0.1:8080, or a free port if that is taken)")
    .option("--data-dir <dir>", "where both keep their files", "./var")
    .option("--no-demo", "without the demo run")
    .option("--log-level <level>", "what the scheduler and the worker log to stderr", "warn")
    .action(async (words: CommonWords & { listen?: string; dataDir: string; demo: boolean; logLevel: string }) => {
      const { dataDir, demo, logLevel } = words;
      finish(await runUp({ listen: words.listen, dataDir, demo, logLevel }, { ...world, terminal: openTerminal(words, world) }));
    });
  // These two read their own words; here they are only listed. See runCli for the way around commander.
  for (const name of ["scheduler", "worker"] as const) {
    program
      .command(name)
      .description(
        name === "scheduler"
          ? "takes work and gives it to workers (--help: its settings)"
          : "joins a scheduler and does the work (--help: its settings)",
      )
      .allowUnknownOption()
      .allowExcessArguments()
      .action(async (_words, command: Command) => finish(await (await loadCommand(name)).run(command.args, world.env)));
  }
};

const addRuns: Add = (program, world, finish) => {
  withCommon(program.command("run"), [
    "astra run examples/workflows/welcome.json",
    "astra run flow.json --watch --json",
    "astra run flow.json --detach",
  ])
    .description("submit a workflow and follow it to its end")
    .argument("<file>", "a workflow, or {workflow, clientId}, as JSON; - reads stdin")
    .option("--watch", "follow it live (this is the default; with --json one line per fact)")
    .option("--detach", "submit it and go")
    .option("--priority <0-9>", "lower is sooner", readWhole(0, 9))
    .option("--timeout <ms>", "end it as failed after this long", readWhole(1, Number.MAX_SAFE_INTEGER))
    .option("--key <key>", "Idempotency-Key: the same key and file give the same run")
    .action(
      async (
        file: string,
        words: CommonWords & { watch?: boolean; detach?: boolean; priority?: number; timeout?: number; key?: string },
      ) => {
        const { watch = false, detach = false, json = false, priority, timeout: timeoutMs, key } = words;
        finish(
          await runFile(
            file,
            { watch, detach, json, priority, timeoutMs, key },
            { ...openPlace(words, world), signal: world.stopping },
          ),
        );
      },
    );
  const runs = program.command("runs").description("look at runs, stop one, take its history away");
  withCommon(runs.command("list").alias("ls"), ["astra runs list", "astra runs list --status failed", "astra runs list --json"])
    .description("the latest runs, newest first")
    .addOption(new Option("--status <status>", "only those that are in this state").choices(runStatuses))
    .option("--client <id>", "only those of this client")
    .option("--limit <n>", "how many", readWhole(1, 200), 50)
    .action(async (words: CommonWords & { status?: string; client?: string; limit: number }) =>
      finish(await listRuns(words, openPlace(words, world))),
    );
  const one = {
    show: [showRun, "one run with its nodes"],
    cancel: [cancelRun, "stop a run"],
    export: [exportRun, "its whole history as JSON lines: definition, facts, final state"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one)) {
    withCommon(runs.command(verb), [`astra runs ${verb} 0199a2c4-…`])
      .description(description)
      .argument("<run>", "its id, or the beginning or end of it while unique")
      .action(async (id: string, words: CommonWords) => finish(await act(id, openPlace(words, world))));
  }
};

const addWorkers: Add = (program, world, finish) => {
  const workers = program.command("workers").description("who does the work");
  withCommon(workers.command("list").alias("ls"), ["astra workers list", "astra workers list --json"])
    .description("all workers of the tenant")
    .action(async (words: CommonWords) => finish(await listWorkers(openPlace(words, world))));
  const one = {
    show: [showWorker, "one worker: how it is, what it takes, its last numbers"],
    diagnose: [diagnoseWorker, "all that is known of it: session, lease, what it holds, what it can run, its outbox"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one)) {
    withCommon(workers.command(verb), [`astra workers ${verb} demo-worker`, `astra workers ${verb} demo-worker --json`])
      .description(description)
      .argument("<worker>", "its name or instance id")
      .action(async (word: string, words: CommonWords) => finish(await act(word, openPlace(words, world))));
  }
  for (const on of [true, false]) {
    const verb = on ? "drain" : "undrain";
    withCommon(workers.command(verb), [`astra workers ${verb} demo-worker`])
      .description(on ? "let it finish what it holds and give it nothing new" : "give it work again")
      .argument("<worker>", "its name or instance id")
      .action(async (word: string, words: CommonWords) => finish(await setDraining(word, on, openPlace(words, world))));
  }
  withCommon(workers.command("kick"), ["astra workers kick demo-worker", 'astra workers kick demo-worker --reason "key leaked"'])
    .description("end its session now; it keeps what it holds and may come back with a good credential")
    .argument("<worker>", "its name or instance id")
    .option("--reason <words>", "why, for the worker and the log")
    .action(async (word: string, words: CommonWords & { reason?: string }) =>
      finish(await kickWorker(word, words.reason, openPlace(words, world))),
    );
};

const addTools: Add = (program, world, finish) => {
  withCommon(program.command("doctor"), [
    "astra doctor",
    "astra doctor --failpoints",
    "astra doctor --json --data-dir /var/lib/astra",
  ])
    .description("is this machine fit to run a scheduler?")
    .option("--data-dir <dir>", "the folder whose disk is timed", "./var/scheduler")
    .option("--listen <host:port>", "the address to look at", "127.0.0.1:8080")
    .option("--store <url>", "the scheduler's store, if it is PostgreSQL (ASTRA_SCHEDULER_STORE)")
    .option("--failpoints", "list the named crash points instead")
    .action(async (words: CommonWords & { dataDir: string; listen: string; store?: string; failpoints?: boolean }) => {
      const { dataDir, listen, failpoints = false, json = false } = words;
      const store = words.store ?? world.env["ASTRA_SCHEDULER_STORE"];
      finish(await runDoctor({ dataDir, listen, store, failpoints, json }, openTerminal(words, world)));
    });
  program
    .command("sim")
    .description("play seeds of a simulated world full of faults, and judge what was promised")
    .option("--seeds <from..to>", "the seeds to play (default 1..200)")
    .option("--seed <n>", "one seed", readWhole(0, 999_999_999))
    .option("--story", "tell what happens in that seed, line by line")
    .option("--profile <name>", "which faults: default, calm, crashes, network, session, store, clocks, disk", "default")
    .option("--refuse-resume", "answer every resume with a reset: all promises must hold without")
    .option("--shrink", "find the smallest schedule of faults of every seed that fails")
    .option("--twice", "play every seed twice and compare the traces")
    .option("--save", "keep what fails as regressions, shrunk, inside the repository")
    .option("--jobs <n>", "threads", readWhole(1, 64), 1)
    .option("--plant <name>", "for tests of the judges: switch a known bug on and expect it to be caught")
    .option("--json", "one line of data a seed, then a summary")
    .option("--quiet", "only data and errors")
    .option("--no-color", "no colours (also NO_COLOR)")
    .addHelpText(
      "before",
      ["", "--seeds 1..1000 --jobs 2", "--seed 7 --story", "--profile network --shrink --save"]
        .map((words) => `  astra sim ${words}`.trimEnd())
        .join("\n")
        .concat("\n"),
    )
    .action(async (words: CommonWords & SimFlags) => {
      const {
        seeds,
        seed,
        profile,
        plant,
        jobs,
        json = false,
        story = false,
        shrink = false,
        twice = false,
        save = false,
        refuseResume = false,
      } = words;
      const flags = { isStory: story, isShrunk: shrink, isTwice: twice, isSaved: save, isResumeRefused: refuseResume };
      const wish = { seeds, seed, profile, plant, jobs, json, ...flags };
      finish(await runSim(wish, { terminal: openTerminal(words, world), stopping: world.stopping }));
    });
  program
    .command("bench")
    .description("the measurements (inside the repository)")
    .argument("[words...]")
    .allowUnknownOption()
    .action(async (words: string[]) => finish(await runBench(words)));
};

function withCommon(command: Command, examples: readonly string[]): Command {
  return command
    .option("--url <url>", "the scheduler (ASTRA_URL; default http://127.0.0.1:8080)")
    .option("--token <@file>", "file with the token, - for stdin (ASTRA_TOKEN; on loopback dev-token)")
    .option("--ca <file>", "authority (PEM) of an https scheduler, if this machine does not know it (ASTRA_CA)")
    .option("--json", "data instead of words")
    .option("--quiet", "only data and errors")
    .option("--no-color", "no colours (also NO_COLOR)")
    .addHelpText("before", `${examples.map((example) => `  ${example}`).join("\n")}\n`);
}

function readWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`);
  };
}

function openTerminal(words: CommonWords, world: CliWorld): Terminal {
  return createTerminal({ ...world, isQuiet: words.quiet ?? false, wantsColor: words.color });
}

function openPlace(words: CommonWords, world: CliWorld): { client: Client; terminal: Terminal; json: boolean } {
  const connection = readConnection({ url: words.url, token: words.token, ca: words.ca, env: world.env });
  return { client: createClient(connection), terminal: openTerminal(words, world), json: words.json ?? false };
}
