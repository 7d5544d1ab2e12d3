// The commands about runs and their flags: `run`, `runs`, `why`, `bulk`.

import { queryKeys, type RunStatus } from "@astraflow/protocol";
import { type Command, Option } from "commander";
import { type BulkFlags, cancelRun, rebindRun, replayRun, retryRun, runBulkChange, skipNode } from "../runs/change-commands.ts";
import { diffRuns } from "../runs/diff-command.ts";
import {
  exportRun,
  type LogFlags,
  listRuns,
  type RunListFlags,
  type ShowRunFlags,
  showLedger,
  showLogs,
  showRun,
  watchRunToEnd,
} from "../runs/inspect-commands.ts";
import { startRun } from "../runs/start-command.ts";
import { explainRun } from "../runs/why-command.ts";
import {
  addConfirmationFlags,
  addConnectionFlags,
  addDryRunFlag,
  addFilterFlags,
  addListFlags,
  type CliEnvironment,
  type CommonFlags,
  collectValues,
  createChangeContext,
  createCommandContext,
  type DefineCommands,
  parseInstantFlag,
  parseInteger,
} from "./common-flags.ts";
import { setExamples } from "./help.ts";

const runStatuses = ["queued", "running", "succeeded", "failed", "cancelled"] as const satisfies readonly RunStatus[];
const runArgumentHelp = "its id, or the beginning or end of it while unique";
const nodeArgumentHelp = "its label, id, or place such as 4*2/7";

export const defineRunCommands: DefineCommands = (program, environment, setExitCode) => {
  defineStartCommand(program, environment, setExitCode);
  const runs = program.command("runs").description("look at runs, steer one, take its history away");
  setExamples(runs, ["astra runs list --filter status:failed", "astra runs show 7c1e", "astra runs retry 7c1e"]);
  defineRunQueries(runs, environment, setExitCode);
  defineRunActions(runs, environment, setExitCode);
  addConnectionFlags(program.command("why"), ["astra why 7c1e", 'astra why 7c1e "Stream Feedback"', "astra why 7c1e --json"])
    .description("why a run, or one node of it, waits or failed")
    .argument("<run>", runArgumentHelp)
    .argument("[node]", nodeArgumentHelp)
    .action(async (run: string, node: string | undefined, flags: CommonFlags) =>
      setExitCode(await explainRun(run, node, createCommandContext(flags, environment))),
    );
  defineBulkCommands(program, environment, setExitCode);
};

interface RunFlags extends CommonFlags {
  readonly watch?: boolean;
  readonly detach?: boolean;
  readonly input: string[];
  readonly pin: string[];
  readonly label: string[];
  readonly from?: string;
  readonly to?: string;
  readonly reuse?: string;
  readonly version?: string;
  readonly dryRun?: boolean;
  readonly allowUnknown?: boolean;
  readonly priority?: number;
  readonly timeout?: number;
  readonly key?: string;
}

const defineStartCommand: DefineCommands = (program, environment, setExitCode) => {
  addConnectionFlags(program.command("run"), [
    "astra run examples/workflows/welcome.json",
    'astra run "Welcome journey" --input recipient=ada@example.org --watch',
    "astra run flow.json --from Notify --reuse 7c1e --dry-run",
  ])
    .description("submit a workflow and follow it to its end")
    .argument(
      "<workflow>",
      "a file with a workflow or {workflow, clientId} as JSON (- is stdin), or the name or id of a kept one",
    )
    .option("--input <name=value>", "set a parameter: name, or node.name; the value as JSON, a word, or @FILE", collectValues, [])
    .option("--watch", "follow it live (this is the default; with --json one line per fact)")
    .option("--detach", "submit it and go")
    .option("--from <node>", "run this node and what follows; what comes before must be pinned or reused")
    .option("--to <node>", "run this node and what it needs, nothing else")
    .option("--pin <node=json>", "results the node is taken to have had; it is not run", collectValues, [])
    .option("--reuse <run>", "take results of nodes that are not run from this run")
    .option("--version <version>", "of a kept workflow: a number, latest or draft (default: latest)")
    .option("--label <name=value>", "a word to find the run by", collectValues, [])
    .option("--dry-run", "show what would run and what is wrong; start nothing")
    .option("--allow-unknown", "start it though no worker has brought a package it needs; its nodes wait")
    .option("--priority <0-9>", "lower is sooner", parseInteger(0, 9))
    .option("--timeout <ms>", "end it as failed after this long", parseInteger(1, Number.MAX_SAFE_INTEGER))
    .option("--key <key>", "Idempotency-Key: the same key and file give the same run")
    .action(async (fileOrName: string, flags: RunFlags) => {
      const { watch = false, detach = false, json = false, dryRun = false, allowUnknown = false } = flags;
      const { priority, timeout: timeoutMs, key } = flags;
      const { input, pin, label, from, to, reuse, version } = flags;
      const how = { watch, detach, json, dryRun, allowUnknown, priority, timeoutMs, key };
      const options = { ...how, input, pin, label, from, to, reuse, version };
      setExitCode(await startRun(fileOrName, options, createCommandContext(flags, environment)));
    });
};

const defineRunQueries: DefineCommands = (runs, environment, setExitCode) => {
  addFilterFlags(
    addListFlags(runs.command("list").alias("ls"), [
      "astra runs list",
      "astra runs list --filter 'status:failed workflow:\"Smoke\" since:1h'",
      "astra runs list --status failed --output id",
    ]),
    queryKeys.runs,
  )
    .description("the latest runs, newest first")
    .addOption(new Option("--status <status>", "only those that are in this state").choices(runStatuses))
    .option("--workflow <workflow>", "only those of this workflow, by name or id")
    .option("--client <id>", "only those of this client")
    .option("--since <instant>", "created at or after: 2h, 2026-01-31 or 2026-01-31T12:00:00Z", parseInstantFlag)
    .option("--until <instant>", "created before", parseInstantFlag)
    .option("--search <words>", "words of its name, labels, client, id or error")
    .action(async (flags: CommonFlags & RunListFlags) =>
      setExitCode(await listRuns(flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(runs.command("show"), [
    "astra runs show 7c1e",
    "astra runs show 7c1e --at 1200",
    "astra runs show 0199a2c4-… --json",
  ])
    .description("one run with its nodes")
    .argument("<run>", runArgumentHelp)
    .option(
      "--at <cursor>",
      "as it was after this position of the log: the cursor of an event, or any asOf",
      parseInteger(0, Number.MAX_SAFE_INTEGER),
    )
    .action(async (id: string, flags: CommonFlags & ShowRunFlags) =>
      setExitCode(await showRun(id, flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(runs.command("ledger"), ["astra runs ledger 7c1e", "astra runs ledger", "astra runs ledger 7c1e --json"])
    .description("what was given to workers and what came of it, in figures: nothing lost, nothing twice")
    .argument("[run]", `${runArgumentHelp} (default: all that the log holds)`)
    .action(async (id: string | undefined, flags: CommonFlags) =>
      setExitCode(await showLedger(id, createCommandContext(flags, environment))),
    );
  const one = {
    watch: [watchRunToEnd, "follow a run to its end"],
    export: [exportRun, "its whole history as JSON lines: definition, facts, final state"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one)) {
    addConnectionFlags(runs.command(verb), [
      `astra runs ${verb} 7c1e`,
      `astra runs ${verb} 0199a2c4-… --json`,
      `astra runs ${verb} 7c1e > run.jsonl`,
    ])
      .description(description)
      .argument("<run>", runArgumentHelp)
      .action(async (id: string, flags: CommonFlags) => setExitCode(await act(id, createCommandContext(flags, environment))));
  }
  addConnectionFlags(runs.command("logs"), [
    "astra runs logs 7c1e",
    "astra runs logs 7c1e Personalise --follow",
    "astra runs logs 7c1e --search error",
  ])
    .description("what its nodes printed")
    .argument("<run>", runArgumentHelp)
    .argument("[node]", nodeArgumentHelp)
    .option("--follow", "go on with what is printed from now on")
    .option("--channel <name>", "only this channel")
    .option("--search <words>", "only lines that hold these words")
    .action(async (id: string, node: string | undefined, flags: CommonFlags & LogFlags) =>
      setExitCode(await showLogs(id, node, flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(runs.command("diff"), [
    "astra runs diff 7c1e 9a0b",
    "astra runs diff 7c1e 9a0b --json",
    "astra runs diff 7c1e 9a0b --no-color | less",
  ])
    .description("what differs between two runs: their workflows, and how their nodes ended, with what, after how long")
    .argument("<first>", runArgumentHelp)
    .argument("<second>", runArgumentHelp)
    .action(async (first: string, second: string, flags: CommonFlags) =>
      setExitCode(await diffRuns(first, second, createCommandContext(flags, environment))),
    );
};

interface ReasonFlags extends CommonFlags {
  readonly reason?: string;
}

const defineRunActions: DefineCommands = (runs, environment, setExitCode) => {
  addConfirmationFlags(runs.command("cancel").alias("rm"), [
    "astra runs cancel 7c1e",
    "astra runs cancel 7c1e --yes",
    "astra runs cancel 7c1e --dry-run",
  ])
    .description("stop a run")
    .argument("<run>", runArgumentHelp)
    .action(async (id: string, flags: CommonFlags) => setExitCode(await cancelRun(id, createChangeContext(flags, environment))));
  addDryRunFlag(runs.command("retry"), [
    "astra runs retry 7c1e",
    "astra runs retry 7c1e Notify",
    'astra runs retry 7c1e --reason "the mail server is back"',
  ])
    .description("a new run with what succeeded in this one; with a node, try that node again now")
    .argument("<run>", runArgumentHelp)
    .argument("[node]", nodeArgumentHelp)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (id: string, node: string | undefined, flags: ReasonFlags) =>
      setExitCode(await retryRun(id, node, flags.reason, createChangeContext(flags, environment))),
    );
  addDryRunFlag(runs.command("replay").alias("rerun"), [
    "astra runs replay 7c1e --from Notify",
    "astra runs replay 7c1e --version latest",
    "astra runs rerun 7c1e --dry-run",
  ])
    .description("a new run from a node on, with the same or another version of the workflow")
    .argument("<run>", runArgumentHelp)
    .option("--from <node>", "this node and all that follows anew (default: what did not succeed)")
    .option("--version <version>", "same, latest, draft or a number (default: same)")
    .option("--allow-unknown", "though no worker has brought a package it needs; its nodes wait")
    .action(async (id: string, flags: CommonFlags & { from?: string; version?: string; allowUnknown?: boolean }) =>
      setExitCode(await replayRun(id, flags, createChangeContext(flags, environment))),
    );
  addDryRunFlag(runs.command("rebind"), [
    "astra runs rebind 7c1e --worker w-2",
    "astra runs rebind 7c1e --node Notify --mode drain",
    "astra runs rebind 7c1e --dry-run",
  ])
    .description("give what is open to another worker")
    .argument("<run>", runArgumentHelp)
    .option("--node <node>", "only this node")
    .option("--worker <worker>", "name or instance id (default: any but where it is)")
    .addOption(
      new Option("--mode <mode>", "take running attempts back, or let them end").choices(["switch", "drain"]).default("switch"),
    )
    .action(async (id: string, flags: CommonFlags & { node?: string; worker?: string; mode: "switch" | "drain" }) =>
      setExitCode(await rebindRun(id, flags, createChangeContext(flags, environment))),
    );
  addDryRunFlag(runs.command("skip"), [
    "astra runs skip 7c1e Notify",
    'astra runs skip 7c1e "Schedule Delivery" --reason "not today"',
    "astra runs skip 7c1e 4*2/7 --dry-run",
  ])
    .description("leave a node out: what follows goes on as if it had nothing to do")
    .argument("<run>", runArgumentHelp)
    .argument("<node>", nodeArgumentHelp)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (id: string, node: string, flags: ReasonFlags) =>
      setExitCode(await skipNode(id, node, flags.reason, createChangeContext(flags, environment))),
    );
};

const bulkDescriptions = {
  cancel: "stop every run that matches",
  retry: "start every run that matches anew, with what succeeded",
  replay: "start every run that matches anew, with another version of its workflow or from a node on",
  dismiss: "close the dead letters of every run that matches",
} as const;

function defineBulkCommands(program: Command, environment: CliEnvironment, setExitCode: (code: number) => void): void {
  const bulk = program.command("bulk").description("change many runs at once");
  setExamples(bulk, [
    "astra bulk cancel --status queued --dry-run",
    'astra bulk retry --filter "status:failed since:1h"',
    "astra bulk dismiss --workflow welcome --yes",
  ]);
  for (const [verb, description] of Object.entries(bulkDescriptions)) {
    const command = addFilterFlags(
      addConnectionFlags(bulk.command(verb), [
        `astra bulk ${verb} --status failed --dry-run`,
        `astra bulk ${verb} --search "E.TIMEOUT" --yes`,
        `astra bulk ${verb} --filter "worker:w-2 since:1h"`,
      ]),
      queryKeys.runs,
    )
      .description(description)
      .addOption(new Option("--status <status...>", "in one of these states").choices(runStatuses))
      .option("--workflow <workflow>", "of this workflow, by name or id")
      .option("--client <id>", "of this client")
      .option("--since <instant>", "created at or after: 2h, 2026-01-31 or 2026-01-31T12:00:00Z", parseInstantFlag)
      .option("--until <instant>", "created before", parseInstantFlag)
      .option("--search <words>", "words of name, labels, client, id or error")
      .option("--reason <words>", "why, for the log and the audit")
      .option("--dry-run", "count, change nothing")
      .option("-y, --yes", "do it without asking; needed where nobody can be asked")
      .action(async (flags: CommonFlags & BulkFlags) =>
        setExitCode(await runBulkChange(verb, flags, createCommandContext(flags, environment))),
      );
    if (verb === "replay")
      command
        .option(
          "--from <node>",
          "id of the node, in each run, that runs anew with all that follows (default: what did not succeed)",
        )
        .option("--version <version>", "same, latest, draft or a number (default: same)");
  }
}
