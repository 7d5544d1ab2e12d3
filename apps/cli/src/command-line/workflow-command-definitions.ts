// The commands about kept workflows and their flags.

import { queryKeys } from "@astraflow/protocol";
import type { FilterFlags } from "../lookup/list-filters.ts";
import {
  diffWorkflow,
  listWorkflows,
  type PushFlags,
  publishWorkflow,
  pullWorkflow,
  pushWorkflow,
  rollbackWorkflow,
  showWorkflow,
  validateWorkflow,
} from "../workflows/workflow-commands.ts";
import {
  addConnectionFlags,
  addDryRunFlag,
  addFilterFlags,
  addListFlags,
  type CommonFlags,
  createChangeContext,
  createCommandContext,
  type DefineCommands,
  parseInteger,
} from "./common-flags.ts";
import { setExamples } from "./help.ts";

const workflowArgumentHelp = "its name or id, shortened while unique";
const fileArgumentHelp = "a workflow as JSON; - is stdin";
const parseVersionNumber = parseInteger(1, 999_999_999);

export const defineWorkflowCommands: DefineCommands = (program, environment, setExitCode) => {
  const workflows = program.command("workflows").description("kept workflows: drafts, versions, files");
  setExamples(workflows, [
    "astra workflows list",
    "astra workflows pull welcome --to flow.json",
    "astra workflows push flow.json",
  ]);
  addFilterFlags(
    addListFlags(workflows.command("list").alias("ls"), [
      "astra workflows list",
      "astra workflows list --search welcome --output id",
      "astra workflows list --json",
    ]),
    queryKeys.workflows,
  )
    .description("workflows that are kept here, changed last first")
    .option("--search <words>", "words of name, description, tags, owner and id")
    .action(async (flags: CommonFlags & FilterFlags & { search?: string; limit: number }) =>
      setExitCode(await listWorkflows(flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(workflows.command("show"), [
    'astra workflows show "Welcome journey"',
    "astra workflows show 2b1f",
    "astra workflows show welcome --json",
  ])
    .description("one workflow: its draft, nodes, versions and problems")
    .argument("<workflow>", workflowArgumentHelp)
    .action(async (nameOrId: string, flags: CommonFlags) =>
      setExitCode(await showWorkflow(nameOrId, createCommandContext(flags, environment))),
    );
  defineWorkflowFileCommands(workflows, environment, setExitCode);
  defineWorkflowVersionCommands(workflows, environment, setExitCode);
};

const defineWorkflowFileCommands: DefineCommands = (workflows, environment, setExitCode) => {
  addConnectionFlags(workflows.command("pull"), [
    "astra workflows pull welcome --to flow.json",
    "astra workflows pull welcome --version 3",
    "astra workflows pull welcome | jq .nodes",
  ])
    .description("the draft, or a version, as a file")
    .argument("<workflow>", workflowArgumentHelp)
    .option("--version <n>", "a published version", parseVersionNumber)
    .option("--to <file>", "where to write it (default: stdout)")
    .action(async (nameOrId: string, flags: CommonFlags & { version?: number; to?: string }) =>
      setExitCode(await pullWorkflow(nameOrId, flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(workflows.command("push"), [
    "astra workflows push flow.json",
    "astra workflows push flow.json --base 7",
    "astra workflows push flow.json --dry-run",
  ])
    .description("keep a file as the draft of the workflow with its id")
    .argument("<file>", fileArgumentHelp)
    .option("--base <revision>", "only if the draft is still at this revision", parseVersionNumber)
    .option("--dry-run", "only check it")
    .option("--allow-unknown", "though no worker has brought a package it needs")
    .action(async (file: string, flags: CommonFlags & PushFlags) =>
      setExitCode(await pushWorkflow(file, flags, createCommandContext(flags, environment))),
    );
  addConnectionFlags(workflows.command("validate"), [
    "astra workflows validate flow.json",
    "astra workflows validate flow.json --local",
    "astra workflows validate - --json < flow.json",
  ])
    .description("what is wrong with a file; ends with 1 where it cannot run")
    .argument("<file>", fileArgumentHelp)
    .option("--local", "without asking a scheduler, and so without knowing packages")
    .action(async (file: string, flags: CommonFlags & { local?: boolean }) =>
      setExitCode(await validateWorkflow(file, flags, createCommandContext(flags, environment))),
    );
};

const defineWorkflowVersionCommands: DefineCommands = (workflows, environment, setExitCode) => {
  addConnectionFlags(workflows.command("diff"), [
    "astra workflows diff welcome",
    "astra workflows diff welcome --from 1 --to 2",
    "astra workflows diff welcome --file flow.json",
  ])
    .description("what changed between versions, up to the draft, or from the draft to a file")
    .argument("<workflow>", workflowArgumentHelp)
    .option("--from <version>", "a number or draft (default: the newest version)")
    .option("--to <version>", "a number or draft (default: the draft)")
    .option("--file <file>", "compare the draft with this file")
    .action(async (nameOrId: string, flags: CommonFlags & { from?: string; to?: string; file?: string }) =>
      setExitCode(await diffWorkflow(nameOrId, flags, createCommandContext(flags, environment))),
    );
  addDryRunFlag(workflows.command("publish"), [
    "astra workflows publish welcome",
    'astra workflows publish welcome --note "shorter delay"',
    "astra workflows publish welcome --revision 7 --dry-run",
  ])
    .description("make the draft a version, which never changes")
    .argument("<workflow>", workflowArgumentHelp)
    .option("--note <words>", "what is new")
    .option("--revision <n>", "only if the draft is still at this revision", parseVersionNumber)
    .option("--allow-unknown", "though no worker has brought a package it needs")
    .action(async (nameOrId: string, flags: CommonFlags & { note?: string; revision?: number; allowUnknown?: boolean }) =>
      setExitCode(await publishWorkflow(nameOrId, flags, createChangeContext(flags, environment))),
    );
  addDryRunFlag(workflows.command("rollback"), [
    "astra workflows rollback welcome 3",
    "astra workflows rollback welcome 3 --dry-run",
    "astra workflows rollback welcome 3 --json",
  ])
    .description("make the draft what a version is")
    .argument("<workflow>", workflowArgumentHelp)
    .argument("<version>", "its number", parseVersionNumber)
    .action(async (nameOrId: string, version: number, flags: CommonFlags) =>
      setExitCode(await rollbackWorkflow(nameOrId, version, createChangeContext(flags, environment))),
    );
};
