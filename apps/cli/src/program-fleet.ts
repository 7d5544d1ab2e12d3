// The commands about workers, queues, dead letters, the audit, events and signing in, and their flags.

import { Option } from "commander";
import {
  type AuditWords,
  dismissLetter,
  type EventWords,
  type LetterWords,
  listAudit,
  listLetters,
  requeueLetter,
  showEvents,
} from "./ledger-command.ts";
import { logIn, logOut } from "./login-command.ts";
import { type Add, type CommonWords, openPlace, withCommon, withList } from "./program-words.ts";
import { listQueues } from "./why-command.ts";
import { diagnoseWorker, kickWorker, listWorkers, setDraining, showWorker } from "./workers-command.ts";

const workerWord = "its name or instance id";

export const addFleet: Add = (program, world, finish) => {
  addWorkers(program, world, finish);
  withList(program.command("queues"), ["astra queues", "astra queues --output wide"])
    .description("what waits for which kind of worker, and who could take it")
    .action(async (words: CommonWords) => finish(await listQueues(openPlace(words, world))));
  addLetters(program, world, finish);
  const audit = program.command("audit").description("who did what");
  withList(audit.command("list").alias("ls"), ["astra audit list", "astra audit list --action worker.drain --json"])
    .description("what was done, newest first")
    .option("--action <action>", "exactly this action, such as worker.drain")
    .option("--actor <id>", "by this user or token")
    .option("--target <id>", "to this thing")
    .option("--run <run>", "to this run and its tasks, by its whole id")
    .option("--since <instant>", "nothing older than this")
    .action(async (words: CommonWords & AuditWords) => finish(await listAudit(words, openPlace(words, world))));
  withCommon(program.command("events"), [
    "astra events --follow",
    "astra events --since 1200 --topics run,node.status",
    "astra events --follow --json",
  ])
    .description("what happens, one line an event")
    .option("--follow", "go on with what comes (without: what has come since --since)")
    .option("--since <cursor>", "after this event, or the asOf of any answer (default: from now on; 0: all that is kept)")
    .option("--topics <topics>", "types, or beginnings of types, with commas between them")
    .option("--run <run>", "only of this run, by its whole id")
    .option("--worker <name>", "only of this worker")
    .action(async (words: CommonWords & EventWords) => finish(await showEvents(words, openPlace(words, world))));
  addSigningIn(program, world, finish);
};

const addWorkers: Add = (program, world, finish) => {
  const workers = program.command("workers").description("who does the work");
  withList(workers.command("list").alias("ls"), [
    "astra workers list",
    "astra workers list --json",
    "astra workers list --output wide",
  ])
    .description("all workers of the tenant")
    .action(async (words: CommonWords) => finish(await listWorkers(openPlace(words, world))));
  const one = {
    show: [showWorker, "one worker: how it is, what it takes, its last numbers"],
    diagnose: [diagnoseWorker, "all that is known of it: session, lease, what it holds, what it can run, its outbox"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one)) {
    withCommon(workers.command(verb), [`astra workers ${verb} demo-worker`, `astra workers ${verb} demo-worker --json`])
      .description(description)
      .argument("<worker>", workerWord)
      .action(async (word: string, words: CommonWords) => finish(await act(word, openPlace(words, world))));
  }
  for (const on of [true, false]) {
    const verb = on ? "drain" : "undrain";
    withCommon(workers.command(verb), [`astra workers ${verb} demo-worker`])
      .description(on ? "let it finish what it holds and give it nothing new" : "give it work again")
      .argument("<worker>", workerWord)
      .action(async (word: string, words: CommonWords) => finish(await setDraining(word, on, openPlace(words, world))));
  }
  withCommon(workers.command("kick"), ["astra workers kick demo-worker", 'astra workers kick demo-worker --reason "key leaked"'])
    .description("end its session now; it keeps what it holds and may come back with a good credential")
    .argument("<worker>", workerWord)
    .option("--reason <words>", "why, for the worker and the log")
    .action(async (word: string, words: CommonWords & { reason?: string }) =>
      finish(await kickWorker(word, words.reason, openPlace(words, world))),
    );
};

const addLetters: Add = (program, world, finish) => {
  const letters = program.command("letters").description("tasks that failed for good");
  withList(letters.command("list").alias("ls"), ["astra letters list", "astra letters list --status dismissed --json"])
    .description("dead letters, newest first")
    .addOption(new Option("--status <status>", "in this state (default: open)").choices(["open", "requeued", "dismissed"]))
    .option("--search <words>", "words of workflow, node, code or message")
    .action(async (words: CommonWords & LetterWords) => finish(await listLetters(words, openPlace(words, world))));
  const one = {
    requeue: [requeueLetter, "start the run anew from the node that died"],
    dismiss: [dismissLetter, "take it off the list; nothing is run"],
  } as const;
  for (const [verb, [act, description]] of Object.entries(one))
    withCommon(letters.command(verb), [`astra letters ${verb} 7c1e.4 --reason "fixed upstream"`])
      .description(description)
      .argument("<task>", "its id, shortened while unique")
      .option("--reason <words>", "why, for the log and the audit")
      .action(async (word: string, words: CommonWords & { reason?: string }) =>
        finish(await act(word, words.reason, openPlace(words, world))),
      );
};

const addSigningIn: Add = (program, world, finish) => {
  withCommon(program.command("login"), ["astra login ada", "astra login ada < password-file", "astra login ada --tenant north"])
    .description("get a token for a name and a password, and keep it for the next commands")
    .argument("<username>")
    .option("--tenant <tenant>", "the tenant the user belongs to")
    .addHelpText("after", "\nThe password comes from stdin or ASTRA_PASSWORD, never from a flag.")
    .action(async (username: string, words: CommonWords & { tenant?: string }) =>
      finish(await logIn(username, words, openPlace(words, world))),
    );
  withCommon(program.command("logout"), ["astra logout"])
    .description("give the kept token up")
    .action(async (words: CommonWords) => finish(await logOut(openPlace(words, world))));
};
