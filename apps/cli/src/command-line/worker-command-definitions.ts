// The commands about workers, queues and signing in, and their flags.

import { queryKeys } from "@astraflow/protocol";
import { logIn, logOut } from "../local/login-command.ts";
import type { FilterFlags } from "../lookup/list-filters.ts";
import { listQueues, showQueue } from "../workers/queue-commands.ts";
import {
  diagnoseWorker,
  type EnrolFlags,
  enrolWorker,
  kickWorker,
  listWorkers,
  setDraining,
  showWorker,
  type WorkerListFlags,
} from "../workers/worker-commands.ts";
import {
  addConfirmationFlags,
  addConnectionFlags,
  addDryRunFlag,
  addFilterFlags,
  addListFlags,
  type CommonFlags,
  collectValues,
  createChangeContext,
  createCommandContext,
  type DefineCommands,
  parseInteger,
} from "./common-flags.ts";
import { setExamples } from "./help.ts";

const workerArgumentHelp = "its name or instance id, shortened while unique";

export const defineWorkerCommands: DefineCommands = (program, environment, setExitCode) => {
  const workers = program.command("workers").description("who does the work");
  setExamples(workers, ["astra workers list", "astra workers show demo-worker", "astra workers drain demo-worker"]);
  defineWorkerQueries(workers, environment, setExitCode);
  defineWorkerActions(workers, environment, setExitCode);
  defineQueueCommands(program, environment, setExitCode);
  defineLoginCommands(program, environment, setExitCode);
};

const defineWorkerQueries: DefineCommands = (workers, environment, setExitCode) => {
  addFilterFlags(
    addListFlags(
      workers.command("list").alias("ls"),
      ["astra workers list", 'astra workers list --filter "connected:yes package:demo"', "astra workers list --output wide"],
      { limit: 200, max: 10_000 },
    ),
    queryKeys.workers,
  )
    .description("all workers of the tenant")
    .action(async (flags: CommonFlags & WorkerListFlags) =>
      setExitCode(await listWorkers(flags, createCommandContext(flags, environment))),
    );
  const one = {
    show: [showWorker, "one worker: how it is, what it takes, its last numbers"],
    diagnose: [diagnoseWorker, "all that is known of it: session, lease, what it holds, what it can run, its outbox"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one)) {
    addConnectionFlags(workers.command(verb), [
      `astra workers ${verb} demo-worker`,
      `astra workers ${verb} 0199a2c4`,
      `astra workers ${verb} demo-worker --json`,
    ])
      .description(description)
      .argument("<worker>", workerArgumentHelp)
      .action(async (nameOrId: string, flags: CommonFlags) =>
        setExitCode(await act(nameOrId, createCommandContext(flags, environment))),
      );
  }
};

const defineWorkerActions: DefineCommands = (workers, environment, setExitCode) => {
  for (const on of [true, false]) {
    const verb = on ? "drain" : "undrain";
    addDryRunFlag(workers.command(verb), [
      `astra workers ${verb} demo-worker`,
      `astra workers ${verb} demo-worker --dry-run`,
      `astra workers ${verb} demo-worker --json`,
    ])
      .description(on ? "let it finish what it holds and give it nothing new" : "give it work again")
      .argument("<worker>", workerArgumentHelp)
      .action(async (nameOrId: string, flags: CommonFlags) =>
        setExitCode(await setDraining(nameOrId, on, createChangeContext(flags, environment))),
      );
  }
  addConfirmationFlags(workers.command("kick"), [
    "astra workers kick demo-worker",
    'astra workers kick demo-worker --reason "key leaked" --yes',
    "astra workers kick demo-worker --dry-run",
  ])
    .description("end its session now; it keeps what it holds and may come back with a good credential")
    .argument("<worker>", workerArgumentHelp)
    .option("--reason <words>", "why, for the worker and the log")
    .action(async (nameOrId: string, flags: CommonFlags & { reason?: string }) =>
      setExitCode(await kickWorker(nameOrId, flags.reason, createChangeContext(flags, environment))),
    );
  addDryRunFlag(workers.command("enrol"), [
    "astra workers enrol w-berlin-1",
    "astra workers enrol w-berlin-1 --pool gpu --tag site=berlin --slots 4",
    "astra workers enrol w-berlin-1 --id 7d0c1b52 --json",
  ])
    .description("make a worker known before it joins")
    .argument("<name>", "how people call it")
    .option("--id <instance>", "its instance id, which it says when it joins (default: its name)")
    .option("--pool <pool>", "the pool it belongs to")
    .option("--tag <name=value>", "a tag that nodes can ask for", collectValues, [])
    .option("--slots <n>", "how many tasks it takes at once", parseInteger(1, 10_000))
    .action(async (name: string, flags: CommonFlags & EnrolFlags) =>
      setExitCode(await enrolWorker(name, flags, createChangeContext(flags, environment))),
    );
};

const defineQueueCommands: DefineCommands = (program, environment, setExitCode) => {
  const queues = program.command("queues").description("what waits for which kind of worker, and who could take it");
  setExamples(queues, ["astra queues", "astra queues list --output wide", "astra queues show demo.text"]);
  addFilterFlags(
    addListFlags(queues.command("list", { isDefault: true }).alias("ls"), [
      "astra queues list",
      "astra queues list --filter package:demo",
      "astra queues list --output wide",
    ]),
    queryKeys.queues,
  )
    .description("all queues in which something waits")
    .action(async (flags: CommonFlags & FilterFlags & { limit: number }) =>
      setExitCode(await listQueues(flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(queues.command("show"), [
    "astra queues show demo.text",
    "astra queues show 7c1e",
    "astra queues show demo.text --json",
  ])
    .description("one of them: what it needs, what waits, and what keeps workers from it")
    .argument("<queue>", "its node type or id, shortened while unique")
    .action(async (nameOrId: string, flags: CommonFlags) =>
      setExitCode(await showQueue(nameOrId, createCommandContext(flags, environment))),
    );
};

const defineLoginCommands: DefineCommands = (program, environment, setExitCode) => {
  addConnectionFlags(program.command("login"), [
    "astra login ada",
    "astra login ada < password-file",
    "astra login ada --tenant north",
  ])
    .description("get a token for a name and a password, and keep it for the next commands")
    .argument("<username>", "the password comes from stdin or ASTRA_PASSWORD, never from a flag")
    .option("--tenant <tenant>", "the tenant the user belongs to")
    .action(async (username: string, flags: CommonFlags & { tenant?: string }) =>
      setExitCode(await logIn(username, flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(program.command("logout"), [
    "astra logout",
    "astra logout --url https://astra.example",
    "astra logout --json",
  ])
    .description("give the kept token up")
    .action(async (flags: CommonFlags) => setExitCode(await logOut(createCommandContext(flags, environment))));
};
