// The commands about dead letters, the audit, events and saved views, and `top` and `open`.

import { type QueryableList, queryKeys } from "@astraflow/protocol";
import { dismissDeadLetter, listAudit, listDeadLetters, requeueDeadLetter, streamEvents } from "../history/history-commands.ts";
import { listViews, removeView, saveView, showView } from "../history/view-commands.ts";
import { openPage } from "../local/open-command.ts";
import { refreshMsMin, showTop } from "../workers/top-command.ts";
import { type CommandTable, instantOption, parseInteger } from "./command-table.ts";

const taskHelp = "id or label, or its unique beginning";
const viewHelp = "name or id, or its unique beginning";
const reasonHelp = "reason, for the log and the audit";
const runFilterHelp = "by its id, or its unique beginning or end";
const pages = Object.keys(queryKeys) as QueryableList[];
const letterExamples = ["7c1e.4", '7c1e.4 --reason "fixed upstream"', "7c1e.4 --dry-run"];

export const historyCommands: CommandTable = {
  letters: {
    help: "list, requeue and dismiss dead letters: tasks that failed for good",
    examples: ["list", "requeue 7c1e.4", "dismiss 7c1e.4"],
  },
  "letters list": {
    isPaged: true,
    help: "list dead letters, newest first",
    examples: ["astra letters list", '--filter "run:7c1e timeout"', "--status dismissed --json"],
    filter: queryKeys.letters,
    options: {
      "--status <status>": { help: "with this status (default: open)", choices: ["open", "requeued", "dismissed"] },
      "--search <text>": "search workflow, node, code and message",
    },
    run: listDeadLetters,
  },
  "letters requeue": {
    kind: "change",
    help: "start a new run from the failed node on",
    examples: letterExamples,
    arguments: { "<task>": taskHelp },
    options: { "--reason <text>": reasonHelp },
    run: requeueDeadLetter,
  },
  "letters dismiss": {
    kind: "delete",
    alias: "rm",
    help: "remove a dead letter from the list without running it",
    examples: letterExamples,
    arguments: { "<task>": taskHelp },
    options: { "--reason <text>": reasonHelp },
    run: dismissDeadLetter,
  },
  audit: { help: "show who changed what", examples: ["list", "list --since 1d", "list --action worker.drain"] },
  "audit list": {
    isPaged: true,
    help: "list audit entries, newest first",
    examples: ["astra audit list", "--action worker.drain --json", '--filter "actor:ada since:1d"'],
    filter: queryKeys.audit,
    options: {
      "--action <action>": "with exactly this action, such as worker.drain",
      "--actor <id>": "by this user or token, by name or id",
      "--target <id>": "with this target",
      "--run <run>": `about this run and its tasks, ${runFilterHelp}`,
      "--since <instant>": instantOption("not older than this: 2h, 2026-01-31 or 2026-01-31T12:00:00Z"),
    },
    run: listAudit,
  },
  events: {
    help: "print events, one per line",
    examples: ["--follow", "--since 1200 --topics run,node.status", "--follow --json --topics wire --worker w-2"],
    filter: queryKeys.events,
    options: {
      "--follow": "keep printing new events (default: print events since --since and exit)",
      "--since <cursor>": "after this event, or the asOf of any answer (default: now; 0: all stored events)",
      "--topics <topics>": "event types or their beginnings, separated by commas; wire is the frames of workers",
      "--run <run>": `only of this run, ${runFilterHelp}`,
      "--worker <worker>": "only of this worker, by name",
      "--frame-type <type>": "with the topic wire: only frames whose type is, or begins with, this",
    },
    run: streamEvents,
  },
  views: {
    help: "manage saved filters",
    examples: ['save "late ones" --filter "status:failed since:1d"', 'astra runs list --view "late ones"', 'rm "late ones"'],
  },
  "views list": {
    isPaged: true,
    help: "list your own and shared views",
    examples: ["astra views list", "--page runs", "--json"],
    options: { "--page <page>": { help: "only views of this list", choices: pages } },
    run: listViews,
  },
  "views show": {
    help: "show a view",
    examples: ['"late ones"', "7c1e", '"late ones" --json'],
    arguments: { "<view>": viewHelp },
    run: showView,
  },
  "views save": {
    kind: "change",
    help: "save a filter under a name, replacing one with the same name",
    examples: [
      '"late ones" --filter "status:failed since:1d"',
      'mine --page workers --filter "pool:gpu" --shared',
      "mine --filter status:running --dry-run",
    ],
    arguments: { "<name>": "name of the view" },
    options: {
      "--filter <query>": { help: "key:value terms, as --filter of that list takes them", isRequired: true },
      "--page <page>": { help: "the list that it filters", choices: pages, default: "runs" },
      "--shared": "visible to everybody in the tenant",
      "--no-shared": "visible only to its owner",
    },
    completesFilter: (args) => queryKeys[pages.find((page) => args[args.indexOf(page) - 1] === "--page") ?? "runs"],
    run: saveView,
  },
  "views remove": {
    kind: "delete",
    alias: "rm",
    help: "delete a view",
    examples: ['"late ones"', "astra views rm 7c1e --yes", '"late ones" --dry-run'],
    arguments: { "<view>": viewHelp },
    run: removeView,
  },
  top: {
    help: "show workers and open runs live; q quits",
    examples: ["astra top", "--once", "--every 5000 --json"],
    options: {
      "--once": "print the current state as rows and exit",
      "--every <ms>": { help: "milliseconds between two looks", parse: parseInteger(refreshMsMin, 3_600_000), default: 1_000 },
    },
    run: (context, input: { once?: boolean; every: number }) =>
      showTop({ ...context, listenKeys: context.environment.listenForKeys }, input),
  },
  open: {
    help: "open the page of a run, a worker or a workflow in the browser; without an id, the start page",
    examples: ["astra open", "7c1e", "demo-worker --json"],
    arguments: { "[id]": "of a run, a worker or a workflow, or its unique beginning or end" },
    run: (context, input: { id?: string }) =>
      openPage({ ...context, openBrowser: context.environment.openBrowser ?? (async () => false), hasPage }, input),
  },
};

/** Only an address that answers with a page is worth opening. */
async function hasPage(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { headers: { accept: "text/html" } });
    await response.body?.cancel();
    return response.ok && (response.headers.get("content-type") ?? "").includes("text/html");
  } catch (cause) {
    // fetch reports a server that does not answer as a TypeError.
    if (cause instanceof TypeError) return false;
    throw cause;
  }
}
