// The program `astra`: its commands that start things and the tools; those about runs, workflows, the fleet and its ledger are in program-*.ts. Here
// stands what a command is called and what it says in --help; what it does lives in its own file.

import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { isAppName, loadCommand } from "./app-loader.ts";
import { runBench } from "./bench-command.ts";
import { createClient } from "./client.ts";
import { commandOf, completeWords, completionScript, type Known, liveWords, type Shell, shells } from "./completion-command.ts";
import { readConnection } from "./connection.ts";
import { Rehearsal, showRehearsal } from "./consent.ts";
import { runDoctor } from "./doctor-command.ts";
import { CliFailure, describeFailure, exitCodes, usageFailure } from "./failure.ts";
import { formatHelp, setExamples } from "./help.ts";
import { setOffers } from "./offers.ts";
import { addFleet } from "./program-fleet.ts";
import { addLedger } from "./program-ledger.ts";
import { addRuns } from "./program-runs.ts";
import { type Add, type CliWorld, type CommonWords, openTerminal, readWhole, withCommon, withForm } from "./program-words.ts";
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
  const isJson = argv.includes("--json");
  let complaint = "";
  const program = buildProgram(world, (code) => {
    exitCode = code;
  });
  if (isJson) configureErrors(program, (text) => (complaint += text));
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (cause) {
    if (cause instanceof CommanderError) {
      // commander has written its own words by now; its help is no failure.
      if (cause.exitCode === 0) return exitCodes.ok;
      const hint = misplaced(cause, program, argv);
      if (isJson) world.stderr.write(describeFailure(usageFailure(`${complaint}${hint}`.trim()), true));
      else world.stderr.write(hint);
      return exitCodes.usage;
    }
    if (cause instanceof Rehearsal)
      return showRehearsal(cause, isJson, openTerminal({ color: false, quiet: argv.includes("--quiet") }, world));
    if (!(cause instanceof CliFailure)) throw cause;
    world.stderr.write(describeFailure(cause, isJson));
    return cause.exitCode;
  }
}

/** Words about wrong usage go here, of every command: settings are inherited only by what is added later. */
function configureErrors(command: Command, write: (text: string) => void): void {
  command.configureOutput({ writeErr: write, outputError: (text) => write(text.replace(/^error: /, "")) });
  for (const one of command.commands) configureErrors(one, write);
}

/** The whole tree of commands; nothing is done before it is told to parse. */
export function buildProgram(world: CliWorld, finish: (code: number) => void): Command {
  const program = new Command("astra")
    .description("A control plane for workers: takes work, finds the worker that can do it, follows it live, loses nothing.")
    .version(readVersion(), "-V, --version", "which version this is")
    // Behind a command --version is that command's own: the version of a workflow.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void world.stdout.write(text),
      writeErr: (text) => void world.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "error E.REQUEST.INVALID: ")),
    })
    .configureHelp({ formatHelp })
    .showHelpAfterError("Add --help to see what there is.")
    .helpCommand("help [command]", "what there is, or the words of one command");
  setExamples(program, ["astra up", "astra run examples/workflows/welcome.json", "astra runs list --filter status:failed"]);
  addStarters(program, world, finish);
  addRuns(program, world, finish);
  addWorkflows(program, world, finish);
  addFleet(program, world, finish);
  addLedger(program, world, finish);
  addTools(program, world, finish);
  addCompletion(program, world, finish);
  return program;
}

/** A flag that the command has, written before it: people who come from other programs look for it there. */
function misplaced({ code, message }: CommanderError, program: Command, argv: readonly string[]): string {
  const flag = /'(-[^']*)'/.exec(message)?.[1];
  if (code !== "commander.unknownOption" || flag === undefined) return "";
  const { command, path } = commandOf(program, argv);
  const isKnown = command.options.some(({ long, short }) => flag === long || flag === short);
  return isKnown ? `Flags stand behind the command: astra ${path.join(" ")} ${flag}\n` : "";
}

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as { version: string };
  return version;
}

const addStarters: Add = (program, world, finish) => {
  setOffers(
    withCommon(program.command("up"), ["astra up", "astra up --listen 127.0.0.1:0 --data-dir ./var", "astra up --no-demo"]),
    { values: { "log-level": ["trace", "debug", "info", "warn", "error", "fatal", "silent"] } },
  )
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

const profiles = ["default", "calm", "crashes", "network", "session", "store", "clocks", "disk", "workflow"] as const;
const benches = ["chain", "engine", "postgres", "session", "slice"] as const;

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
  setOffers(
    withForm(program.command("sim"), [
      "astra sim --seeds 1..1000 --jobs 2",
      "astra sim --seed 7 --story",
      "astra sim --profile network --shrink --save",
    ]),
    { values: { profile: profiles } },
  )
    .description("play seeds of a simulated world full of faults, and judge what was promised")
    .option("--seeds <from..to>", "the seeds to play (default 1..200)")
    .option("--seed <n>", "one seed", readWhole(0, 999_999_999))
    .option("--story", "tell what happens in that seed, line by line")
    .option("--profile <name>", `which faults: ${profiles.join(", ")}`, "default")
    .option("--refuse-resume", "answer every resume with a reset: all promises must hold without")
    .option("--shrink", "find the smallest schedule of faults of every seed that fails")
    .option("--twice", "play every seed twice and compare the traces")
    .option("--save", "keep what fails as regressions, shrunk, inside the repository")
    .option("--jobs <n>", "threads", readWhole(1, 64), 1)
    .option("--plant <name>", "for tests of the judges: switch a known bug on and expect it to be caught")
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
  setOffers(
    withForm(program.command("bench"), ["astra bench engine", "astra bench slice --tasks 2000", "astra bench postgres --json"]),
    { values: { words: benches } },
  )
    .description(`the measurements (inside the repository): ${benches.join(", ")}`)
    .argument("[words...]", "which one, and its own flags")
    .allowUnknownOption()
    .action(async (args: string[], words: CommonWords) =>
      finish(
        await runBench(args, { terminal: openTerminal(words, world), json: words.json ?? false, quiet: words.quiet ?? false }),
      ),
    );
};

/** A shell that waits for words must not wait long. */
const completionMs = 1_500;

const addCompletion: Add = (program, world, finish) => {
  withForm(program.command("completion"), [
    'eval "$(astra completion bash)"',
    "astra completion zsh > ~/.zfunc/_astra",
    "astra completion fish | source",
  ])
    .description("the script that lets a shell complete commands, flags, and live ids of runs, workers and workflows")
    .addArgument(program.createArgument("<shell>", "which one").choices(shells))
    .action((shell: Shell, words: CommonWords) => {
      const script = completionScript(shell);
      openTerminal(words, world).print(words.json === true ? JSON.stringify({ shell, script }) : script.trimEnd());
    });
  withForm(program.command("complete-words", { hidden: true }), [
    'astra complete-words -- runs show ""',
    "astra complete-words -- ru",
    "astra complete-words -- runs list --st",
  ])
    .description("what could stand for the last of these words; asked by the completion scripts")
    .argument("[words...]", "all words so far")
    .action(async (args: string[], words: CommonWords) => {
      const valueOf = (flag: string): string | undefined => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
      const live: Known["live"] = async (kind) => {
        const connection = readConnection({
          url: valueOf("--url"),
          token: valueOf("--token"),
          ca: valueOf("--ca"),
          env: world.env,
        });
        return liveWords(kind, createClient(connection, { waitMs: completionMs }));
      };
      const appFlags: Known["appFlags"] = async (name) => (isAppName(name) ? (await loadCommand(name)).flags : null);
      const found = await completeWords(program, args, { live, appFlags }).catch((cause: unknown) => {
        // Nobody there, or not allowed: a shell that completes has no place for words about it, and offers nothing.
        if (cause instanceof CliFailure) return [];
        throw cause;
      });
      const { print } = openTerminal(words, world);
      if (words.json === true) print(JSON.stringify({ words: found }));
      else for (const word of found) print(word);
      finish(exitCodes.ok);
    });
};
