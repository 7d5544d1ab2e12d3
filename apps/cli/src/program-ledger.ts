// The commands about what has happened, saved views, the live picture and the browser, and their flags.

import { type QueryableList, queryKeys } from "@astraflow/protocol";
import { Option } from "commander";
import { setExamples } from "./help.ts";
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
import { setOffers } from "./offers.ts";
import { openPage } from "./open-command.ts";
import {
  type Add,
  type CommonWords,
  openChange,
  openPlace,
  readWhen,
  readWhole,
  withChange,
  withCommon,
  withDeed,
  withFilter,
  withList,
} from "./program-words.ts";
import { everyMsMin, showTop } from "./top-command.ts";
import { listViews, removeView, type SaveWords, saveView, showView, type ViewWords } from "./views-command.ts";

export const addLedger: Add = (program, world, finish) => {
  addLetters(program, world, finish);
  addAudit(program, world, finish);
  addEvents(program, world, finish);
  addViews(program, world, finish);
  addScreen(program, world, finish);
};

const addLetters: Add = (program, world, finish) => {
  const letters = program.command("letters").description("tasks that failed for good");
  setExamples(letters, ["astra letters list", "astra letters requeue 7c1e.4", "astra letters dismiss 7c1e.4"]);
  withFilter(
    withList(letters.command("list").alias("ls"), [
      "astra letters list",
      'astra letters list --filter "run:7c1e timeout"',
      "astra letters list --status dismissed --json",
    ]),
    queryKeys.letters,
  )
    .description("dead letters, newest first")
    .addOption(new Option("--status <status>", "in this state (default: open)").choices(["open", "requeued", "dismissed"]))
    .option("--search <words>", "words of workflow, node, code or message")
    .action(async (words: CommonWords & LetterWords) => finish(await listLetters(words, openPlace(words, world))));
  const examples = (verb: string): string[] => [
    `astra letters ${verb} 7c1e.4`,
    `astra letters ${verb} 7c1e.4 --reason "fixed upstream"`,
    `astra letters ${verb} 7c1e.4 --dry-run`,
  ];
  const word = "its id or label, shortened while unique";
  withChange(letters.command("requeue"), examples("requeue"))
    .description("start the run anew from the node that died")
    .argument("<task>", word)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (task: string, words: CommonWords & { reason?: string }) =>
      finish(await requeueLetter(task, words.reason, openChange(words, world))),
    );
  withDeed(letters.command("dismiss").alias("rm"), examples("dismiss"))
    .description("take it off the list; nothing is run")
    .argument("<task>", word)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (task: string, words: CommonWords & { reason?: string }) =>
      finish(await dismissLetter(task, words.reason, openChange(words, world))),
    );
};

const addAudit: Add = (program, world, finish) => {
  const audit = program.command("audit").description("who did what");
  setExamples(audit, ["astra audit list", "astra audit list --since 1d", "astra audit list --action worker.drain"]);
  withFilter(
    withList(audit.command("list").alias("ls"), [
      "astra audit list",
      "astra audit list --action worker.drain --json",
      'astra audit list --filter "actor:ada since:1d"',
    ]),
    queryKeys.audit,
  )
    .description("what was done, newest first")
    .option("--action <action>", "exactly this action, such as worker.drain")
    .option("--actor <id>", "by this user or token, by name or id")
    .option("--target <id>", "to this thing")
    .option("--run <run>", "to this run and its tasks, by its id, shortened while unique")
    .option("--since <instant>", "nothing older than this: 2h, 2026-01-31 or 2026-01-31T12:00:00Z", readWhen)
    .action(async (words: CommonWords & AuditWords) => finish(await listAudit(words, openPlace(words, world))));
};

const addEvents: Add = (program, world, finish) => {
  withFilter(
    withCommon(program.command("events"), [
      "astra events --follow",
      "astra events --since 1200 --topics run,node.status",
      "astra events --follow --json --topics wire --worker w-2",
    ]),
    queryKeys.events,
  )
    .description("what happens, one line an event")
    .option("--follow", "go on with what comes (without: what has come since --since)")
    .option("--since <cursor>", "after this event, or the asOf of any answer (default: from now on; 0: all that is kept)")
    .option("--topics <topics>", "types, or beginnings of types, with commas between them; frames of workers: wire")
    .option("--run <run>", "only of this run, by its id, shortened while unique")
    .option("--worker <worker>", "only of this worker, by its name")
    .option("--frame-type <type>", "with the topic wire: only frames of this type, or whose type begins so")
    .action(async (words: CommonWords & EventWords) => finish(await showEvents(words, openPlace(words, world))));
};

const addViews: Add = (program, world, finish) => {
  const views = program.command("views").description("filters that are kept under a name");
  setExamples(views, [
    'astra views save "late ones" --filter "status:failed since:1d"',
    'astra runs list --view "late ones"',
    'astra views rm "late ones"',
  ]);
  const pages = Object.keys(queryKeys) as QueryableList[];
  const viewWord = "its name or id, shortened while unique";
  withList(views.command("list").alias("ls"), ["astra views list", "astra views list --page runs", "astra views list --json"])
    .description("one's own and those that are shared")
    .addOption(new Option("--page <page>", "of this list alone").choices(pages))
    .action(async (words: CommonWords & ViewWords) => finish(await listViews(words, openPlace(words, world))));
  withCommon(views.command("show"), [
    'astra views show "late ones"',
    "astra views show 7c1e",
    'astra views show "late ones" --json',
  ])
    .description("one view")
    .argument("<view>", viewWord)
    .action(async (word: string, words: CommonWords) => finish(await showView(word, openPlace(words, world))));
  const pageOf = (words: readonly string[]): QueryableList =>
    pages.find((page) => words.includes(page) && words[words.indexOf(page) - 1] === "--page") ?? "runs";
  setOffers(
    withChange(views.command("save"), [
      'astra views save "late ones" --filter "status:failed since:1d"',
      'astra views save mine --page workers --filter "pool:gpu" --shared',
      "astra views save mine --filter status:running --dry-run",
    ]),
    { filter: (words) => queryKeys[pageOf(words)] },
  )
    .description("keep a filter under a name; one of that name is replaced")
    .argument("<name>", "what it is called")
    .requiredOption("--filter <line>", "key:value words, as --filter of that list takes them")
    .addOption(new Option("--page <page>", "the list it is of").choices(pages).default("runs"))
    .option("--shared", "everybody of the tenant sees it")
    .option("--no-shared", "only its owner sees it")
    .action(async (name: string, words: CommonWords & SaveWords) =>
      finish(await saveView(name, words, openChange(words, world))),
    );
  withDeed(views.command("remove").alias("rm"), [
    'astra views remove "late ones"',
    "astra views rm 7c1e --yes",
    'astra views remove "late ones" --dry-run',
  ])
    .description("forget a view")
    .argument("<view>", viewWord)
    .action(async (word: string, words: CommonWords) => finish(await removeView(word, openChange(words, world))));
};

const addScreen: Add = (program, world, finish) => {
  withCommon(program.command("top"), ["astra top", "astra top --once", "astra top --every 5000 --json"])
    .description("the fleet and its open runs, live; q ends it")
    .option("--once", "one look, as rows, then end")
    .option("--every <ms>", "between looks", readWhole(everyMsMin, 3_600_000), 1_000)
    .action(async (words: CommonWords & { once?: boolean; every: number }) =>
      finish(
        await showTop(
          { once: words.once ?? false, everyMs: words.every },
          { ...openPlace(words, world), ...(world.listenKeys && { listenKeys: world.listenKeys }) },
        ),
      ),
    );
  withCommon(program.command("open"), ["astra open", "astra open 7c1e", "astra open demo-worker --json"])
    .description("the page of a run, a worker or a workflow in the browser; without one, the first page")
    .argument("[id]", "of a run, a worker or a workflow, shortened while unique")
    .action(async (word: string | undefined, words: CommonWords) => {
      const browse = world.browse ?? (async () => false);
      finish(await openPage(word, { ...openPlace(words, world), browse, hasPage }));
    });
};

/** Only what answers with a page is worth opening. */
async function hasPage(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { accept: "text/html" } });
    await response.body?.cancel();
    return response.ok && (response.headers.get("content-type") ?? "").includes("text/html");
  } catch (cause) {
    // So fetch says that nobody answers any more: then there is no page either.
    if (cause instanceof TypeError) return false;
    throw cause;
  }
}
