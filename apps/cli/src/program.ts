// The program `astra`: its commands that start things and the tools; those about runs, workflows and the fleet are in program-*.ts. Here
// stands what a command is called and what it says in --help; what it does lives in its own file.

import { Command, CommanderError } from "commander";
import { loadCommand } from "./app-loader.ts";
import { runBench } from "./bench-command.ts";
import { runDoctor } from "./doctor-command.ts";
import { CliFailure, describeFailure, exitCodes } from "./failure.ts";
import { addFleet } from "./program-fleet.ts";
import { addRuns } from "./program-runs.ts";
import { type Add, type CliWorld, type CommonWords, openTerminal, readWhole, withCommon } from "./program-words.ts";
import { addWorkflows } from "./program-workflows.ts";
import { runSim } from "./sim-command.ts";
import { runUp } from "./up-command.ts";

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
  addWorkflows(program, world, finish);
  addFleet(program, world, finish);
  addTools(program, world, finish);
  return program;
}

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
    .option(
      "--profile <name>",
      "which faults: default, calm, crashes, network, session, store, clocks, disk, workflow",
      "default",
    )
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
