// The program `astra`: its commands that start things and the tools; those about runs, workflows, the fleet and its ledger are in program-*.ts. Here
// stands what a command is called and what it says in --help; what it does lives in its own file.

import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { createCliClient } from "../api/api-client.ts";
import { resolveApiEndpoint } from "../api/api-endpoint.ts";
import { DryRunIntercepted, printDryRun } from "../api/confirmation.ts";
import {
  type CompletionSources,
  completeCommandLine,
  completionScript,
  fetchNames,
  findCommand,
  type Shell,
  shells,
} from "../completion/completion.ts";
import { setCompletionHints } from "../completion/completion-hints.ts";
import { isAppName, loadAppCommand } from "../local/app-loader.ts";
import { runBench } from "../local/bench-command.ts";
import { runDoctor } from "../local/doctor-command.ts";
import { runSimulation } from "../local/sim-command.ts";
import { startInstallation } from "../local/up-command.ts";
import { CliFailure, describeFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import {
  addConnectionFlags,
  addOutputFlags,
  type CliEnvironment,
  type CommonFlags,
  createCommandTerminal,
  type DefineCommands,
  parseInteger,
} from "./common-flags.ts";
import { formatHelp, setExamples } from "./help.ts";
import { defineHistoryCommands } from "./history-command-definitions.ts";
import { defineRunCommands } from "./run-command-definitions.ts";
import { defineWorkerCommands } from "./worker-command-definitions.ts";
import { defineWorkflowCommands } from "./workflow-command-definitions.ts";

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
export async function runProgram(argv: readonly string[], environment: CliEnvironment): Promise<number> {
  let exitCode: number = exitCodes.ok;
  const isJson = argv.includes("--json");
  let errorText = "";
  const program = buildProgram(environment, (code) => {
    exitCode = code;
  });
  if (isJson) captureErrorOutput(program, (text) => (errorText += text));
  try {
    await program.parseAsync(argv, { from: "user" });
    return exitCode;
  } catch (cause) {
    if (cause instanceof CommanderError) {
      // commander has written its own words by now; its help is no failure.
      if (cause.exitCode === 0) return exitCodes.ok;
      const hint = misplacedFlagHint(cause, program, argv);
      if (isJson) environment.stderr.write(describeFailure(usageFailure(`${errorText}${hint}`.trim()), true));
      else environment.stderr.write(hint);
      return exitCodes.usage;
    }
    if (cause instanceof DryRunIntercepted)
      return printDryRun(cause, isJson, createCommandTerminal({ color: false, quiet: argv.includes("--quiet") }, environment));
    if (!(cause instanceof CliFailure)) throw cause;
    environment.stderr.write(describeFailure(cause, isJson));
    return cause.exitCode;
  }
}

/** Words about wrong usage go here, of every command: settings are inherited only by what is added later. */
function captureErrorOutput(command: Command, write: (text: string) => void): void {
  command.configureOutput({ writeErr: write, outputError: (text) => write(text.replace(/^error: /, "")) });
  for (const one of command.commands) captureErrorOutput(one, write);
}

/** The whole tree of commands; nothing is done before it is told to parse. */
export function buildProgram(environment: CliEnvironment, setExitCode: (code: number) => void): Command {
  const program = new Command("astra")
    .description("A control plane for workers: takes work, finds the worker that can do it, follows it live, loses nothing.")
    .version(readVersion(), "-V, --version", "which version this is")
    // Behind a command --version is that command's own: the version of a workflow.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void environment.stdout.write(text),
      writeErr: (text) => void environment.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, "error E.REQUEST.INVALID: ")),
    })
    .configureHelp({ formatHelp })
    .showHelpAfterError("Add --help to see what there is.")
    .helpCommand("help [command]", "what there is, or the words of one command");
  setExamples(program, ["astra up", "astra run examples/workflows/welcome.json", "astra runs list --filter status:failed"]);
  defineProcessCommands(program, environment, setExitCode);
  defineRunCommands(program, environment, setExitCode);
  defineWorkflowCommands(program, environment, setExitCode);
  defineWorkerCommands(program, environment, setExitCode);
  defineHistoryCommands(program, environment, setExitCode);
  defineToolCommands(program, environment, setExitCode);
  defineCompletionCommands(program, environment, setExitCode);
  return program;
}

/** A flag that the command has, written before it: people who come from other programs look for it there. */
function misplacedFlagHint({ code, message }: CommanderError, program: Command, argv: readonly string[]): string {
  const flag = /'(-[^']*)'/.exec(message)?.[1];
  if (code !== "commander.unknownOption" || flag === undefined) return "";
  const { command, path } = findCommand(program, argv);
  const isKnown = command.options.some(({ long, short }) => flag === long || flag === short);
  return isKnown ? `Flags stand behind the command: astra ${path.join(" ")} ${flag}\n` : "";
}

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  return version;
}

const defineProcessCommands: DefineCommands = (program, environment, setExitCode) => {
  setCompletionHints(
    addConnectionFlags(program.command("up"), [
      "astra up",
      "astra up --listen 127.0.0.1:0 --data-dir ./var",
      "astra up --no-demo",
    ]),
    { values: { "log-level": ["trace", "debug", "info", "warn", "error", "fatal", "silent"] } },
  )
    .description("a scheduler, a worker and a demo run on this machine, for trying things out")
    .option("--listen <host:port>", "where the scheduler listens (default 127.0.0.1:8080, or a free port if that is taken)")
    .option("--data-dir <dir>", "where both keep their files", "./var")
    .option("--no-demo", "without the demo run")
    .option("--log-level <level>", "what the scheduler and the worker log to stderr", "warn")
    .action(async (flags: CommonFlags & { listen?: string; dataDir: string; demo: boolean; logLevel: string }) => {
      const { dataDir, demo, logLevel } = flags;
      setExitCode(
        await startInstallation(
          { listen: flags.listen, dataDir, demo, logLevel },
          { ...environment, terminal: createCommandTerminal(flags, environment) },
        ),
      );
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
      .action(async (_words, command: Command) =>
        setExitCode(await (await loadAppCommand(name)).run(command.args, environment.env)),
      );
  }
};

const simulatorProfiles = ["default", "calm", "crashes", "network", "session", "store", "clocks", "disk", "workflow"] as const;
const benchNames = ["chain", "engine", "postgres", "session", "slice"] as const;

const defineToolCommands: DefineCommands = (program, environment, setExitCode) => {
  addConnectionFlags(program.command("doctor"), [
    "astra doctor",
    "astra doctor --failpoints",
    "astra doctor --json --data-dir /var/lib/astra",
  ])
    .description("is this machine fit to run a scheduler?")
    .option("--data-dir <dir>", "the folder whose disk is timed", "./var/scheduler")
    .option("--listen <host:port>", "the address to look at", "127.0.0.1:8080")
    .option("--store <url>", "the scheduler's store, if it is PostgreSQL (ASTRA_SCHEDULER_STORE)")
    .option("--failpoints", "list the named crash points instead")
    .action(async (flags: CommonFlags & { dataDir: string; listen: string; store?: string; failpoints?: boolean }) => {
      const { dataDir, listen, failpoints = false, json = false } = flags;
      const store = flags.store ?? environment.env["ASTRA_SCHEDULER_STORE"];
      setExitCode(await runDoctor({ dataDir, listen, store, failpoints, json }, createCommandTerminal(flags, environment)));
    });
  setCompletionHints(
    addOutputFlags(program.command("sim"), [
      "astra sim --seeds 1..1000 --jobs 2",
      "astra sim --seed 7 --story",
      "astra sim --profile network --shrink --save",
    ]),
    { values: { profile: simulatorProfiles } },
  )
    .description("play seeds of a simulated world full of faults, and judge what was promised")
    .option("--seeds <from..to>", "the seeds to play (default 1..200)")
    .option("--seed <n>", "one seed", parseInteger(0, 999_999_999))
    .option("--story", "tell what happens in that seed, line by line")
    .option("--profile <name>", `which faults: ${simulatorProfiles.join(", ")}`, "default")
    .option("--refuse-resume", "answer every resume with a reset: all promises must hold without")
    .option("--shrink", "find the smallest schedule of faults of every seed that fails")
    .option("--twice", "play every seed twice and compare the traces")
    .option("--save", "keep what fails as regressions, shrunk, inside the repository")
    .option("--jobs <n>", "threads", parseInteger(1, 64), 1)
    .option("--plant <name>", "for tests of the judges: switch a known bug on and expect it to be caught")
    .action(async (words: CommonFlags & SimFlags) => {
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
      const options = { seeds, seed, profile, plant, jobs, json, ...flags };
      setExitCode(
        await runSimulation(options, { terminal: createCommandTerminal(words, environment), stopping: environment.stopSignal }),
      );
    });
  setCompletionHints(
    addOutputFlags(program.command("bench"), [
      "astra bench engine",
      "astra bench slice --tasks 2000",
      "astra bench postgres --json",
    ]),
    { values: { words: benchNames } },
  )
    .description(`the measurements (inside the repository): ${benchNames.join(", ")}`)
    .argument("[words...]", "which one, and its own flags")
    .allowUnknownOption()
    .action(async (args: string[], flags: CommonFlags) =>
      setExitCode(
        await runBench(args, {
          terminal: createCommandTerminal(flags, environment),
          json: flags.json ?? false,
          quiet: flags.quiet ?? false,
        }),
      ),
    );
};

/** A shell that waits for words must not wait long. */
const completionTimeoutMs = 1_500;

const defineCompletionCommands: DefineCommands = (program, environment, setExitCode) => {
  addOutputFlags(program.command("completion"), [
    'eval "$(astra completion bash)"',
    "astra completion zsh > ~/.zfunc/_astra",
    "astra completion fish | source",
  ])
    .description("the script that lets a shell complete commands, flags, and live ids of runs, workers and workflows")
    .addArgument(program.createArgument("<shell>", "which one").choices(shells))
    .action((shell: Shell, flags: CommonFlags) => {
      const script = completionScript(shell);
      createCommandTerminal(flags, environment).print(flags.json === true ? JSON.stringify({ shell, script }) : script.trimEnd());
    });
  addOutputFlags(program.command("complete-words", { hidden: true }), [
    'astra complete-words -- runs show ""',
    "astra complete-words -- ru",
    "astra complete-words -- runs list --st",
  ])
    .description("what could stand for the last of these words; asked by the completion scripts")
    .argument("[words...]", "all words so far")
    .action(async (args: string[], flags: CommonFlags) => {
      const valueOf = (flag: string): string | undefined => (args.includes(flag) ? args[args.indexOf(flag) + 1] : undefined);
      const listNames: CompletionSources["listNames"] = async (kind) => {
        const connection = resolveApiEndpoint({
          url: valueOf("--url"),
          token: valueOf("--token"),
          ca: valueOf("--ca"),
          env: environment.env,
        });
        return fetchNames(kind, createCliClient(connection, { waitMs: completionTimeoutMs }));
      };
      const appFlags: CompletionSources["appFlags"] = async (name) =>
        isAppName(name) ? (await loadAppCommand(name)).flags : null;
      const found = await completeCommandLine(program, args, { listNames, appFlags }).catch((cause: unknown) => {
        // Nobody there, or not allowed: a shell that completes has no place for words about it, and offers nothing.
        if (cause instanceof CliFailure) return [];
        throw cause;
      });
      const { print } = createCommandTerminal(flags, environment);
      if (flags.json === true) print(JSON.stringify({ words: found }));
      else for (const word of found) print(word);
      setExitCode(exitCodes.ok);
    });
};
