// The commands about runs: `run`, `runs`, `why`, `bulk`.

import { type BulkRequest, queryKeys, type RunStatus } from "@astraflow/protocol";
import { cancelRun, rebindRun, replayRun, retryRun, runBulkChange, skipNode } from "../runs/change-commands.ts";
import { diffRuns } from "../runs/diff-command.ts";
import { exportRun, listRuns, showLedger, showLogs, showRun, watchRunToEnd } from "../runs/inspect-commands.ts";
import { showResults } from "../runs/run-results.ts";
import { startRun } from "../runs/start-command.ts";
import { explainRun } from "../runs/why-command.ts";
import { type CommandTable, confirmationHelp, instantOption, parseInteger, repeatedOption } from "./command-table.ts";

const runStatuses = ["queued", "running", "succeeded", "failed", "cancelled"] as const satisfies readonly RunStatus[];
const runHelp = "run id, or its unique beginning or end";
const nodeHelp = "label, id, or position such as 4*2/7";
const reasonHelp = "reason, for the log and the audit";
const versionHelp = "same, latest, draft or a number (default: same)";

const timeAndTextOptions = {
  "--since <instant>": instantOption("created at or after: 2h, 2026-01-31 or 2026-01-31T12:00:00Z"),
  "--until <instant>": instantOption("created before"),
  "--search <text>": "search name, labels, client, id and error",
};

export const runCommands: CommandTable = {
  run: {
    help: "start a workflow and follow the run to its end",
    examples: [
      "examples/workflows/welcome.json",
      '"Welcome journey" --input recipient=ada@example.org --watch',
      "flow.json --from Notify --reuse 7c1e --dry-run",
    ],
    arguments: {
      "<workflow>": "a JSON file with a workflow or {workflow, clientId} (- is stdin), or the name or id of a stored workflow",
    },
    options: {
      "--input <name=value>": repeatedOption(
        "set a parameter (name, or node.name) to a JSON value, a text, or the content of @FILE",
      ),
      "--watch": "follow the run (the default; with --json, print one line per fact)",
      "--detach": "start the run and return at once",
      "--from <node>": "run this node and its successors; earlier results must be pinned or reused",
      "--to <node>": "run only this node and what it needs",
      "--pin <node=json>": repeatedOption("use these results instead of running the node"),
      "--reuse <run>": "take the results of nodes that do not run from this run",
      "--version <version>": "version of a stored workflow: a number, latest or draft (default: latest)",
      "--label <name=value>": repeatedOption("attach a label to the run"),
      "--dry-run": "show what would run and which problems there are, without starting it",
      "--allow-unknown": "start although no worker offers a required package; its nodes wait",
      "--priority <0-9>": { help: "lower numbers run first (default: 5)", parse: parseInteger(0, 9) },
      "--timeout <ms>": {
        help: "fail the run after this many milliseconds (default: no limit)",
        parse: parseInteger(1, Number.MAX_SAFE_INTEGER),
      },
      "--key <key>": "Idempotency-Key: the same key and file give the same run",
    },
    run: startRun,
  },
  runs: { help: "list, inspect, change and export runs", examples: ["list --filter status:failed", "show 7c1e", "retry 7c1e"] },
  "runs list": {
    isPaged: true,
    help: "list the latest runs, newest first",
    examples: ["astra runs list", "--filter 'status:failed workflow:\"Smoke\" since:1h'", "--status failed --output id"],
    filter: queryKeys.runs,
    options: {
      "--status <status>": { help: "only runs with this status", choices: runStatuses },
      "--workflow <workflow>": "only runs of this workflow, by name or id",
      "--client <id>": "only runs of this client",
      ...timeAndTextOptions,
    },
    run: listRuns,
  },
  "runs show": {
    help: "show a run with its nodes",
    examples: ["7c1e", "7c1e --at 1200", "0199a2c4-… --json"],
    arguments: { "<run>": runHelp },
    options: {
      "--at <cursor>": {
        help: "show the run as it was at this log position: the cursor of an event, or any asOf",
        parse: parseInteger(0, Number.MAX_SAFE_INTEGER),
      },
    },
    run: showRun,
  },
  "runs ledger": {
    help: "count dispatched, finished, repeated, lost and duplicated tasks",
    examples: ["7c1e", "astra runs ledger", "7c1e --json"],
    arguments: { "[run]": `${runHelp} (default: the whole log)` },
    run: showLedger,
  },
  "runs watch": {
    help: "follow a run to its end",
    examples: ["7c1e", "0199a2c4-… --json", "7c1e > run.jsonl"],
    arguments: { "<run>": runHelp },
    run: watchRunToEnd,
  },
  "runs export": {
    help: "print the whole history as JSON lines: definition, facts, final state",
    examples: ["7c1e", "0199a2c4-… --json", "7c1e > run.jsonl"],
    arguments: { "<run>": runHelp },
    run: exportRun,
  },
  "runs logs": {
    help: "print the output of the nodes",
    examples: ["7c1e", "7c1e Personalise --follow", "7c1e --search error"],
    arguments: { "<run>": runHelp, "[node]": nodeHelp },
    options: {
      "--follow": "keep printing new output",
      "--channel <name>": "only this channel",
      "--search <text>": "only lines that contain this text",
    },
    run: showLogs,
  },
  "runs results": {
    help: "print what the last nodes returned, or one node's result as a whole",
    examples: ["7c1e", "7c1e Personalise", "7c1e --json"],
    arguments: { "<run>": runHelp, "[node]": `${nodeHelp} (default: the nodes that no other waits for)` },
    run: showResults,
  },
  "runs diff": {
    help: "compare two runs: their workflows, and the status, result, attempts and duration of each node",
    examples: ["7c1e 9a0b", "7c1e 9a0b --json", "7c1e 9a0b --no-color | less"],
    arguments: { "<first>": runHelp, "<second>": runHelp },
    run: diffRuns,
  },
  "runs cancel": {
    kind: "delete",
    alias: "rm",
    help: "cancel a run",
    examples: ["7c1e", "7c1e --yes", "7c1e --dry-run"],
    arguments: { "<run>": runHelp },
    run: cancelRun,
  },
  "runs retry": {
    kind: "change",
    help: "start a new run that reuses successful nodes; with a node, retry that node now",
    examples: ["7c1e", "7c1e Notify", '7c1e --reason "the mail server is back"'],
    arguments: { "<run>": runHelp, "[node]": nodeHelp },
    options: { "--reason <text>": reasonHelp },
    run: retryRun,
  },
  "runs replay": {
    kind: "change",
    alias: "rerun",
    help: "start a new run from a node on, with the same or another version of the workflow",
    examples: ["7c1e --from Notify", "7c1e --version latest", "astra runs rerun 7c1e --dry-run"],
    arguments: { "<run>": runHelp },
    options: {
      "--from <node>": "run this node and its successors again (default: all nodes that did not succeed)",
      "--version <version>": versionHelp,
      "--allow-unknown": "start although no worker offers a required package; its nodes wait",
    },
    run: replayRun,
  },
  "runs rebind": {
    kind: "change",
    help: "move unfinished tasks to another worker",
    examples: ["7c1e --worker w-2", "7c1e --node Notify --mode drain", "7c1e --dry-run"],
    arguments: { "<run>": runHelp },
    options: {
      "--node <node>": "only this node",
      "--worker <worker>": "name or instance id (default: any other worker)",
      "--mode <mode>": {
        help: "switch takes running attempts back, drain lets them end",
        choices: ["switch", "drain"],
        default: "switch",
      },
    },
    run: rebindRun,
  },
  "runs skip": {
    kind: "change",
    help: "skip a node and continue with its successors",
    examples: ["7c1e Notify", '7c1e "Schedule Delivery" --reason "not today"', "7c1e 4*2/7 --dry-run"],
    arguments: { "<run>": runHelp, "<node>": nodeHelp },
    options: { "--reason <text>": reasonHelp },
    run: skipNode,
  },
  why: {
    help: "explain why a run, or one of its nodes, waits or failed",
    examples: ["7c1e", '7c1e "Stream Feedback"', "7c1e --json"],
    arguments: { "<run>": runHelp, "[node]": nodeHelp },
    run: explainRun,
  },
  bulk: {
    help: "change many runs at once",
    examples: ["cancel --status queued --dry-run", 'retry --filter "status:failed since:1h"', "dismiss --workflow welcome --yes"],
  },
  "bulk cancel": bulkRow("cancel", "cancel every matching run"),
  "bulk retry": bulkRow("retry", "retry every matching run; successful nodes are reused"),
  "bulk replay": bulkRow("replay", "start every matching run again, with another version of its workflow or from a node on", {
    "--from <node>": "id of the node, in each run, from which to run again (default: all nodes that did not succeed)",
    "--version <version>": versionHelp,
  }),
  "bulk dismiss": bulkRow("dismiss", "dismiss the dead letters of every matching run"),
};

function bulkRow(action: BulkRequest["action"], help: string, more: Readonly<Record<string, string>> = {}): CommandTable[string] {
  return {
    help,
    examples: ["--status failed --dry-run", '--search "E.TIMEOUT" --yes', '--filter "worker:w-2 since:1h"'],
    filter: queryKeys.runs,
    options: {
      "--status <status...>": { help: "runs with one of these statuses", choices: runStatuses },
      "--workflow <workflow>": "runs of this workflow, by name or id",
      "--client <id>": "runs of this client",
      ...timeAndTextOptions,
      ...more,
      "--reason <text>": reasonHelp,
      "--dry-run": "only count the matching runs",
      "-y, --yes": confirmationHelp,
    },
    run: (context, flags: object) => runBulkChange(context, { ...flags, action }),
  };
}
