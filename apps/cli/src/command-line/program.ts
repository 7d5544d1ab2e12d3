// The program `astra`: builds the commands from the tables in *-command-definitions.ts, runs one command line and reports its failure.

import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { DryRunIntercepted, printDryRun } from "../api/confirmation.ts";
import { findCommand } from "../completion/completion.ts";
import { loadAppCommand } from "../local/app-loader.ts";
import { CliFailure, describeFailure, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { addCommands, type CliEnvironment, createCommandTerminal, formatHelp, setExamples } from "./command-table.ts";
import { historyCommands } from "./history-command-definitions.ts";
import { startCommands, toolCommands } from "./local-command-definitions.ts";
import { packageCommands } from "./package-command-definitions.ts";
import { packageFleetCommands } from "./package-fleet-command-definitions.ts";
import { runCommands } from "./run-command-definitions.ts";
import { workerCommands } from "./worker-command-definitions.ts";
import { workflowCommands } from "./workflow-command-definitions.ts";

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
      // commander has printed its message by now; its help is no failure.
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

/** Redirects usage errors of every command: commander hands settings down only to commands that are added later. */
function captureErrorOutput(command: Command, write: (text: string) => void): void {
  command.configureOutput({ writeErr: write, outputError: (text) => write(text.replace(/^error: /, "")) });
  for (const one of command.commands) captureErrorOutput(one, write);
}

export function buildProgram(environment: CliEnvironment, setExitCode: (code: number) => void): Command {
  const program = new Command("astra")
    .description("A control plane for workers: it queues work, finds a worker for it, follows it live and loses nothing.")
    .version(readVersion(), "-V, --version", "print the version")
    // After a command --version is a flag of that command: the version of a workflow.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void environment.stdout.write(text),
      writeErr: (text) => void environment.stderr.write(text),
      getOutHelpWidth: () => helpWidth(environment),
      getErrHelpWidth: () => helpWidth(environment),
      outputError: (text, write) => write(text.replace(/^error: /, "error E.REQUEST.INVALID: ")),
    })
    .configureHelp({ formatHelp, minWidthToWrap: 16 })
    .showHelpAfterError("Run with --help for usage.")
    .helpOption("-h, --help", "show this help")
    .helpCommand("help [command]", "show help for a command");
  setExamples(program, ["astra up", "astra run examples/workflows/welcome.json", "astra runs list --filter status:failed"]);
  addCommands(program, startCommands, environment, setExitCode);
  // These two read their own arguments and are only listed here; runCli starts them without commander.
  const apps = { scheduler: "run a scheduler", worker: "connect to a scheduler and run tasks" } as const;
  for (const name of ["scheduler", "worker"] as const)
    program
      .command(name)
      .description(`${apps[name]} (settings: astra ${name} --help)`)
      .allowUnknownOption()
      .allowExcessArguments()
      .action(async (_flags, command: Command) =>
        setExitCode(await (await loadAppCommand(name)).run(command.args, environment.env)),
      );
  const packageTables = [packageCommands, packageFleetCommands];
  for (const table of [runCommands, workflowCommands, workerCommands, ...packageTables, historyCommands, toolCommands])
    addCommands(program, table, environment, setExitCode);
  return program;
}

/** In a pipe as on a terminal of 80 columns. */
function helpWidth(environment: CliEnvironment): number {
  const { stdoutColumns } = createCommandTerminal({ color: false }, environment);
  return Number.isFinite(stdoutColumns) ? stdoutColumns : 80;
}

/** Explains a flag that stands before its command, where other programs take it. */
function misplacedFlagHint({ code, message }: CommanderError, program: Command, argv: readonly string[]): string {
  const flag = /'(-[^']*)'/.exec(message)?.[1];
  if (code !== "commander.unknownOption" || flag === undefined) return "";
  const { command, path } = findCommand(program, argv);
  const isKnown = command.options.some(({ long, short }) => flag === long || flag === short);
  return isKnown ? `Flags go after the command: astra ${path.join(" ")} ${flag}\n` : "";
}

function readVersion(): string {
  const { version } = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")) as { version: string };
  return version;
}
