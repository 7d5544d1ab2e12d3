// The commands about what has happened, saved views, the live picture and the browser, and their flags.

import { type QueryableList, queryKeys } from "@astraflow/protocol";
import { Option } from "commander";
import { setCompletionHints } from "../completion/completion-hints.ts";
import {
  type AuditListFlags,
  type DeadLetterListFlags,
  dismissDeadLetter,
  type EventFlags,
  listAudit,
  listDeadLetters,
  requeueDeadLetter,
  streamEvents,
} from "../history/history-commands.ts";
import { listViews, removeView, type SaveViewFlags, saveView, showView, type ViewListFlags } from "../history/view-commands.ts";
import { openPage } from "../local/open-command.ts";
import { refreshMsMin, showTop } from "../workers/top-command.ts";
import {
  addConfirmationFlags,
  addConnectionFlags,
  addDryRunFlag,
  addFilterFlags,
  addListFlags,
  type CommonFlags,
  createChangeContext,
  createCommandContext,
  type DefineCommands,
  parseInstantFlag,
  parseInteger,
} from "./common-flags.ts";
import { setExamples } from "./help.ts";

export const defineHistoryCommands: DefineCommands = (program, environment, setExitCode) => {
  defineDeadLetterCommands(program, environment, setExitCode);
  defineAuditCommands(program, environment, setExitCode);
  defineEventsCommand(program, environment, setExitCode);
  defineViewCommands(program, environment, setExitCode);
  defineTopAndOpenCommands(program, environment, setExitCode);
};

const defineDeadLetterCommands: DefineCommands = (program, environment, setExitCode) => {
  const letters = program.command("letters").description("tasks that failed for good");
  setExamples(letters, ["astra letters list", "astra letters requeue 7c1e.4", "astra letters dismiss 7c1e.4"]);
  addFilterFlags(
    addListFlags(letters.command("list").alias("ls"), [
      "astra letters list",
      'astra letters list --filter "run:7c1e timeout"',
      "astra letters list --status dismissed --json",
    ]),
    queryKeys.letters,
  )
    .description("dead letters, newest first")
    .addOption(new Option("--status <status>", "in this state (default: open)").choices(["open", "requeued", "dismissed"]))
    .option("--search <words>", "words of workflow, node, code or message")
    .action(async (flags: CommonFlags & DeadLetterListFlags) =>
      setExitCode(await listDeadLetters(flags, createCommandContext(flags, environment))),
    );
  const examples = (verb: string): string[] => [
    `astra letters ${verb} 7c1e.4`,
    `astra letters ${verb} 7c1e.4 --reason "fixed upstream"`,
    `astra letters ${verb} 7c1e.4 --dry-run`,
  ];
  const taskArgumentHelp = "its id or label, shortened while unique";
  addDryRunFlag(letters.command("requeue"), examples("requeue"))
    .description("start the run anew from the node that died")
    .argument("<task>", taskArgumentHelp)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (task: string, flags: CommonFlags & { reason?: string }) =>
      setExitCode(await requeueDeadLetter(task, flags.reason, createChangeContext(flags, environment))),
    );
  addConfirmationFlags(letters.command("dismiss").alias("rm"), examples("dismiss"))
    .description("take it off the list; nothing is run")
    .argument("<task>", taskArgumentHelp)
    .option("--reason <words>", "why, for the log and the audit")
    .action(async (task: string, flags: CommonFlags & { reason?: string }) =>
      setExitCode(await dismissDeadLetter(task, flags.reason, createChangeContext(flags, environment))),
    );
};

const defineAuditCommands: DefineCommands = (program, environment, setExitCode) => {
  const audit = program.command("audit").description("who did what");
  setExamples(audit, ["astra audit list", "astra audit list --since 1d", "astra audit list --action worker.drain"]);
  addFilterFlags(
    addListFlags(audit.command("list").alias("ls"), [
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
    .option("--since <instant>", "nothing older than this: 2h, 2026-01-31 or 2026-01-31T12:00:00Z", parseInstantFlag)
    .action(async (flags: CommonFlags & AuditListFlags) =>
      setExitCode(await listAudit(flags, createCommandContext(flags, environment))),
    );
};

const defineEventsCommand: DefineCommands = (program, environment, setExitCode) => {
  addFilterFlags(
    addConnectionFlags(program.command("events"), [
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
    .action(async (flags: CommonFlags & EventFlags) =>
      setExitCode(await streamEvents(flags, createCommandContext(flags, environment))),
    );
};

const defineViewCommands: DefineCommands = (program, environment, setExitCode) => {
  const views = program.command("views").description("filters that are kept under a name");
  setExamples(views, [
    'astra views save "late ones" --filter "status:failed since:1d"',
    'astra runs list --view "late ones"',
    'astra views rm "late ones"',
  ]);
  const pages = Object.keys(queryKeys) as QueryableList[];
  const viewArgumentHelp = "its name or id, shortened while unique";
  addListFlags(views.command("list").alias("ls"), ["astra views list", "astra views list --page runs", "astra views list --json"])
    .description("one's own and those that are shared")
    .addOption(new Option("--page <page>", "of this list alone").choices(pages))
    .action(async (flags: CommonFlags & ViewListFlags) =>
      setExitCode(await listViews(flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(views.command("show"), [
    'astra views show "late ones"',
    "astra views show 7c1e",
    'astra views show "late ones" --json',
  ])
    .description("one view")
    .argument("<view>", viewArgumentHelp)
    .action(async (nameOrId: string, flags: CommonFlags) =>
      setExitCode(await showView(nameOrId, createCommandContext(flags, environment))),
    );
  const pageOf = (args: readonly string[]): QueryableList =>
    pages.find((page) => args.includes(page) && args[args.indexOf(page) - 1] === "--page") ?? "runs";
  setCompletionHints(
    addDryRunFlag(views.command("save"), [
      'astra views save "late ones" --filter "status:failed since:1d"',
      'astra views save mine --page workers --filter "pool:gpu" --shared',
      "astra views save mine --filter status:running --dry-run",
    ]),
    { filter: (args) => queryKeys[pageOf(args)] },
  )
    .description("keep a filter under a name; one of that name is replaced")
    .argument("<name>", "what it is called")
    .requiredOption("--filter <line>", "key:value words, as --filter of that list takes them")
    .addOption(new Option("--page <page>", "the list it is of").choices(pages).default("runs"))
    .option("--shared", "everybody of the tenant sees it")
    .option("--no-shared", "only its owner sees it")
    .action(async (name: string, flags: CommonFlags & SaveViewFlags) =>
      setExitCode(await saveView(name, flags, createChangeContext(flags, environment))),
    );
  addConfirmationFlags(views.command("remove").alias("rm"), [
    'astra views remove "late ones"',
    "astra views rm 7c1e --yes",
    'astra views remove "late ones" --dry-run',
  ])
    .description("forget a view")
    .argument("<view>", viewArgumentHelp)
    .action(async (nameOrId: string, flags: CommonFlags) =>
      setExitCode(await removeView(nameOrId, createChangeContext(flags, environment))),
    );
};

const defineTopAndOpenCommands: DefineCommands = (program, environment, setExitCode) => {
  addConnectionFlags(program.command("top"), ["astra top", "astra top --once", "astra top --every 5000 --json"])
    .description("the fleet and its open runs, live; q ends it")
    .option("--once", "one look, as rows, then end")
    .option("--every <ms>", "between looks", parseInteger(refreshMsMin, 3_600_000), 1_000)
    .action(async (flags: CommonFlags & { once?: boolean; every: number }) =>
      setExitCode(
        await showTop(
          { once: flags.once ?? false, everyMs: flags.every },
          {
            ...createCommandContext(flags, environment),
            ...(environment.listenForKeys && { listenKeys: environment.listenForKeys }),
          },
        ),
      ),
    );
  addConnectionFlags(program.command("open"), ["astra open", "astra open 7c1e", "astra open demo-worker --json"])
    .description("the page of a run, a worker or a workflow in the browser; without one, the first page")
    .argument("[id]", "of a run, a worker or a workflow, shortened while unique")
    .action(async (nameOrId: string | undefined, flags: CommonFlags) => {
      const browse = environment.openBrowser ?? (async () => false);
      setExitCode(await openPage(nameOrId, { ...createCommandContext(flags, environment), openBrowser: browse, hasPage }));
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
