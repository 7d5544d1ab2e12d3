// The commands about kept workflows and their flags.

import { queryKeys } from "@astraflow/protocol";
import type { FilterWords } from "./filtering.ts";
import { setExamples } from "./help.ts";
import {
  type Add,
  type CommonWords,
  openChange,
  openPlace,
  readWhole,
  withChange,
  withCommon,
  withFilter,
  withList,
} from "./program-words.ts";
import {
  diffWorkflow,
  listWorkflows,
  type PushWords,
  publishWorkflow,
  pullWorkflow,
  pushWorkflow,
  rollbackWorkflow,
  showWorkflow,
  validateWorkflow,
} from "./workflows-command.ts";

const workflowWord = "its name or id, shortened while unique";
const fileWord = "a workflow as JSON; - is stdin";
const number = readWhole(1, 999_999_999);

export const addWorkflows: Add = (program, world, finish) => {
  const workflows = program.command("workflows").description("kept workflows: drafts, versions, files");
  setExamples(workflows, [
    "astra workflows list",
    "astra workflows pull welcome --to flow.json",
    "astra workflows push flow.json",
  ]);
  withFilter(
    withList(workflows.command("list").alias("ls"), [
      "astra workflows list",
      "astra workflows list --search welcome --output id",
      "astra workflows list --json",
    ]),
    queryKeys.workflows,
  )
    .description("workflows that are kept here, changed last first")
    .option("--search <words>", "words of name, description, tags, owner and id")
    .action(async (words: CommonWords & FilterWords & { search?: string; limit: number }) =>
      finish(await listWorkflows(words, openPlace(words, world))),
    );
  withCommon(workflows.command("show"), [
    'astra workflows show "Welcome journey"',
    "astra workflows show 2b1f",
    "astra workflows show welcome --json",
  ])
    .description("one workflow: its draft, nodes, versions and problems")
    .argument("<workflow>", workflowWord)
    .action(async (word: string, words: CommonWords) => finish(await showWorkflow(word, openPlace(words, world))));
  addFiles(workflows, world, finish);
  addVersions(workflows, world, finish);
};

const addFiles: Add = (workflows, world, finish) => {
  withCommon(workflows.command("pull"), [
    "astra workflows pull welcome --to flow.json",
    "astra workflows pull welcome --version 3",
    "astra workflows pull welcome | jq .nodes",
  ])
    .description("the draft, or a version, as a file")
    .argument("<workflow>", workflowWord)
    .option("--version <n>", "a published version", number)
    .option("--to <file>", "where to write it (default: stdout)")
    .action(async (word: string, words: CommonWords & { version?: number; to?: string }) =>
      finish(await pullWorkflow(word, words, openPlace(words, world))),
    );
  withCommon(workflows.command("push"), [
    "astra workflows push flow.json",
    "astra workflows push flow.json --base 7",
    "astra workflows push flow.json --dry-run",
  ])
    .description("keep a file as the draft of the workflow with its id")
    .argument("<file>", fileWord)
    .option("--base <revision>", "only if the draft is still at this revision", number)
    .option("--dry-run", "only check it")
    .option("--allow-unknown", "though no worker has brought a package it needs")
    .action(async (file: string, words: CommonWords & PushWords) =>
      finish(await pushWorkflow(file, words, openPlace(words, world))),
    );
  withCommon(workflows.command("validate"), [
    "astra workflows validate flow.json",
    "astra workflows validate flow.json --local",
    "astra workflows validate - --json < flow.json",
  ])
    .description("what is wrong with a file; ends with 1 where it cannot run")
    .argument("<file>", fileWord)
    .option("--local", "without asking a scheduler, and so without knowing packages")
    .action(async (file: string, words: CommonWords & { local?: boolean }) =>
      finish(await validateWorkflow(file, words, openPlace(words, world))),
    );
};

const addVersions: Add = (workflows, world, finish) => {
  withCommon(workflows.command("diff"), [
    "astra workflows diff welcome",
    "astra workflows diff welcome --from 1 --to 2",
    "astra workflows diff welcome --file flow.json",
  ])
    .description("what changed between versions, up to the draft, or from the draft to a file")
    .argument("<workflow>", workflowWord)
    .option("--from <version>", "a number or draft (default: the newest version)")
    .option("--to <version>", "a number or draft (default: the draft)")
    .option("--file <file>", "compare the draft with this file")
    .action(async (word: string, words: CommonWords & { from?: string; to?: string; file?: string }) =>
      finish(await diffWorkflow(word, words, openPlace(words, world))),
    );
  withChange(workflows.command("publish"), [
    "astra workflows publish welcome",
    'astra workflows publish welcome --note "shorter delay"',
    "astra workflows publish welcome --revision 7 --dry-run",
  ])
    .description("make the draft a version, which never changes")
    .argument("<workflow>", workflowWord)
    .option("--note <words>", "what is new")
    .option("--revision <n>", "only if the draft is still at this revision", number)
    .option("--allow-unknown", "though no worker has brought a package it needs")
    .action(async (word: string, words: CommonWords & { note?: string; revision?: number; allowUnknown?: boolean }) =>
      finish(await publishWorkflow(word, words, openChange(words, world))),
    );
  withChange(workflows.command("rollback"), [
    "astra workflows rollback welcome 3",
    "astra workflows rollback welcome 3 --dry-run",
    "astra workflows rollback welcome 3 --json",
  ])
    .description("make the draft what a version is")
    .argument("<workflow>", workflowWord)
    .argument("<version>", "its number", number)
    .action(async (word: string, version: number, words: CommonWords) =>
      finish(await rollbackWorkflow(word, version, openChange(words, world))),
    );
};
