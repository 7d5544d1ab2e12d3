// The commands about workers, queues and signing in: `workers`, `queues`, `login`, `logout`.

import { queryKeys } from "@astraflow/protocol";
import { logIn, logOut } from "../local/login-command.ts";
import { listQueues, showQueue } from "../workers/queue-commands.ts";
import * as workers from "../workers/worker-commands.ts";
import { type CommandTable, parseInteger, repeatedOption } from "./command-table.ts";

const workerHelp = "name or instance id, or its unique beginning";
const inspectExamples = ["demo-worker", "0199a2c4", "demo-worker --json"];
const drainExamples = ["demo-worker", "demo-worker --dry-run", "demo-worker --json"];

export const workerCommands: CommandTable = {
  workers: { help: "list, inspect and control workers", examples: ["list", "show demo-worker", "drain demo-worker"] },
  "workers list": {
    help: "list all workers of the tenant",
    examples: ["astra workers list", '--filter "connected:yes package:demo"', "--output wide"],
    limits: { default: 200, max: 10_000 },
    filter: queryKeys.workers,
    run: workers.listWorkers,
  },
  "workers show": {
    help: "show state, capabilities and last metrics of a worker",
    examples: inspectExamples,
    arguments: { "<worker>": workerHelp },
    run: workers.showWorker,
  },
  "workers diagnose": {
    help: "show session, lease, held tasks, handlers and outbox of a worker",
    examples: inspectExamples,
    arguments: { "<worker>": workerHelp },
    run: workers.diagnoseWorker,
  },
  "workers drain": {
    kind: "change",
    help: "let a worker finish its tasks and give it no new ones",
    examples: drainExamples,
    arguments: { "<worker>": workerHelp },
    run: workers.drainWorker,
  },
  "workers undrain": {
    kind: "change",
    help: "give a worker new tasks again",
    examples: drainExamples,
    arguments: { "<worker>": workerHelp },
    run: workers.undrainWorker,
  },
  "workers kick": {
    kind: "delete",
    help: "end the session of a worker now; it keeps its tasks and may reconnect with a valid credential",
    examples: ["demo-worker", 'demo-worker --reason "key leaked" --yes', "demo-worker --dry-run"],
    arguments: { "<worker>": workerHelp },
    options: { "--reason <text>": "reason, for the worker and the log" },
    run: workers.kickWorker,
  },
  "workers enrol": {
    kind: "change",
    help: "register a worker before it connects",
    examples: ["w-berlin-1", "w-berlin-1 --pool gpu --tag site=berlin --slots 4", "w-berlin-1 --id 7d0c1b52 --json"],
    arguments: { "<name>": "display name" },
    options: {
      "--id <instance>": "the instance id that it sends when it connects (default: its name)",
      "--pool <pool>": "the pool it belongs to",
      "--tag <name=value>": repeatedOption("a tag that nodes can require"),
      "--slots <n>": { help: "how many tasks it runs at once", parse: parseInteger(1, 10_000) },
    },
    run: workers.enrolWorker,
  },
  queues: {
    help: "show waiting tasks by what they need, and which workers could take them",
    examples: ["astra queues", "list --output wide", "show demo.text"],
  },
  "queues list": {
    isDefault: true,
    help: "list all queues with waiting tasks",
    examples: ["astra queues list", "--filter package:demo", "--output wide"],
    filter: queryKeys.queues,
    run: listQueues,
  },
  "queues show": {
    help: "show a queue: what its tasks need, and why workers cannot take them",
    examples: ["demo.text", "7c1e", "demo.text --json"],
    arguments: { "<queue>": "node type or id, or its unique beginning" },
    run: showQueue,
  },
  login: {
    help: "sign in with a name and a password, and save the token for the next commands",
    examples: ["ada", "ada < password-file", "ada --tenant north"],
    arguments: { "<username>": "the password is read from stdin or ASTRA_PASSWORD, never from a flag" },
    options: { "--tenant <tenant>": "the tenant of the user" },
    run: (context, input: { username: string; tenant?: string }) => logIn(context, input, context.environment.env),
  },
  logout: {
    help: "sign out and delete the saved token",
    examples: ["astra logout", "--url https://astra.example", "--json"],
    run: (context) => logOut(context, context.environment.env),
  },
};
