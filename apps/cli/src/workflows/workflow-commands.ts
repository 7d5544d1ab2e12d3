// `astra workflows list|show|pull|push|validate|diff|publish|rollback`: stored workflows, as files and as versions.

import { writeFileSync } from "node:fs";
import { checkWorkflow, diffWorkflows } from "@astraflow/graph";
import { Fault, readWorkflow, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { type CommandContext, printItem, printList, printMoreHint } from "../api/command-context.ts";
import { readJsonFile } from "../api/input-file.ts";
import { type FilterFlags, resolveFilter } from "../lookup/list-filters.ts";
import { findWorkflow } from "../lookup/name-lookup.ts";
import { type CliExitCode, CliFailure, errorMessage, exitCodes, usageFailure } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { formatTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";

export async function listWorkflows(
  flags: FilterFlags & { search?: string; limit: number },
  context: CommandContext,
): Promise<CliExitCode> {
  const { text } = await resolveFilter(flags, "workflows", context);
  const page = await context.client.listWorkflows({ limit: flags.limit, search: flags.search ?? text });
  printList(
    {
      items: page.items,
      jsonBody: page,
      id: ({ id }) => id,
      columns: [
        { header: "WORKFLOW", value: ({ id }) => id, kind: "id" },
        { header: "NAME", value: ({ metadata }) => metadata.name, kind: "text" },
        { header: "VERSION", value: ({ latestVersion }) => String(latestVersion ?? "") },
        { header: "REVISION", value: ({ revision }) => String(revision) },
        { header: "CHANGED", value: ({ updatedAt }) => formatInstant(updatedAt), kind: "when" },
        { header: "NODES", value: ({ nodes }) => String(nodes.length), isWide: true },
        { header: "OWNER", value: ({ metadata }) => metadata.ownerName ?? metadata.ownerId ?? "", isWide: true },
      ],
      emptyMessage: "No stored workflows. Store one with: astra workflows push FILE",
    },
    context,
  );
  printMoreHint(page, flags.limit, context);
  return exitCodes.ok;
}

export async function showWorkflow(nameOrId: string, context: CommandContext): Promise<CliExitCode> {
  const { client } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const draft = await client.getDraft({ workflowId });
  if (context.json) return printItem(draft, [], context);
  const { items } = await client.listVersions({ workflowId, limit: 20 });
  const about = formatTable([
    ["workflow", workflowId],
    ["name", stripControlCharacters(draft.workflow.metadata.name)],
    [
      "revision",
      `${draft.revision}${draft.isPublished ? " (published)" : ""}, ${formatInstant(draft.updatedAt)} by ${stripControlCharacters(draft.updatedBy)}`,
    ],
    ["nodes", String(draft.workflow.nodes.length)],
  ]);
  const nodes = draft.workflow.nodes.map((node) => [
    stripControlCharacters(node.label),
    node.type,
    `${node.package.name}@${node.package.version}`,
    node.id,
  ]);
  const versions = items.map((one) => [
    String(one.version),
    formatInstant(one.publishedAt),
    stripControlCharacters(one.publishedBy),
    stripControlCharacters(one.note ?? "-"),
  ]);
  return printItem(
    draft,
    [
      ...about,
      "",
      ...formatTable([["NODE", "TYPE", "PACKAGE", "ID"], ...nodes.map((row) => row.map(stripControlCharacters))]),
      ...(versions.length > 0 ? ["", ...formatTable([["VERSION", "PUBLISHED", "BY", "NOTE"], ...versions])] : []),
      ...(draft.problems.length > 0 ? ["", ...draft.problems.map(describeProblem)] : []),
    ],
    context,
  );
}

/** Writes the draft or a version as a file that `run`, `push` and `validate` read. */
export async function pullWorkflow(
  nameOrId: string,
  flags: { version?: number; to?: string },
  { client, terminal }: CommandContext,
): Promise<CliExitCode> {
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const workflow =
    flags.version === undefined
      ? (await client.getDraft({ workflowId })).workflow
      : (await client.getVersion({ workflowId, version: flags.version })).workflow;
  const text = JSON.stringify(workflow, null, 2);
  if (flags.to === undefined || flags.to === "-") terminal.print(text);
  else {
    try {
      writeFileSync(flags.to, `${text}\n`);
    } catch (cause) {
      throw usageFailure(`${flags.to} cannot be written (${errorMessage(cause)}).`);
    }
    terminal.info(`wrote ${flags.to}; next: astra workflows push ${flags.to}`);
  }
  return exitCodes.ok;
}

export interface PushFlags {
  readonly base?: number;
  readonly dryRun?: boolean;
  readonly allowUnknown?: boolean;
}

/** Stores a file as the draft; with --base only if the draft is still at that revision. */
export async function pushWorkflow(file: string, flags: PushFlags, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  const workflow = { ...readWorkflowFile(file), ...(flags.allowUnknown === true && { allowUnknown: true }) };
  const check = await client.validateWorkflow({ body: workflow });
  if (flags.dryRun === true) return printValidation(check, file, context);
  const ref =
    flags.base === undefined
      ? await client.saveWorkflow({ body: workflow })
      : await client.replaceWorkflow(
          { workflowId: workflow.id, body: workflow },
          { headers: { "if-match": `"r${flags.base}"` } },
        );
  printItem(ref, [`${ref.workflowId} revision ${ref.revision ?? "?"}`], context);
  if (!context.json) {
    for (const problem of check.problems) terminal.info(describeProblem(problem));
    terminal.info(`next: astra run ${ref.workflowId}, astra workflows publish ${ref.workflowId}`);
  }
  return exitCodes.ok;
}

function readWorkflowFile(file: string): Workflow {
  const { value, source } = readJsonFile(file);
  // The file may also hold a whole request with its workflow.
  const own = typeof value === "object" && value !== null && "workflow" in value ? value.workflow : value;
  const workflow = readWorkflow(own);
  if (!(workflow instanceof Fault)) return workflow;
  throw new CliFailure(exitCodes.usage, { error: workflow.code, message: `${source}: ${workflow.message}` });
}

/** Asks the scheduler, which knows the packages; --local checks only the file. */
export async function validateWorkflow(file: string, flags: { local?: boolean }, context: CommandContext): Promise<CliExitCode> {
  const workflow = readWorkflowFile(file);
  if (flags.local !== true) return printValidation(await context.client.validateWorkflow({ body: workflow }), file, context);
  const problems = checkWorkflow(workflow);
  return printValidation({ isValid: !problems.some(({ severity }) => severity === "error"), problems }, file, context);
}

function printValidation(
  check: { isValid: boolean; problems: readonly WorkflowProblem[] },
  file: string,
  context: CommandContext,
): CliExitCode {
  const verdict = check.isValid ? `${file} can run` : `${file} cannot run`;
  printItem(check, [...check.problems.map(describeProblem), stripControlCharacters(verdict)], context);
  return check.isValid ? exitCodes.ok : exitCodes.failed;
}

const describeProblem = ({ severity, path, code, message }: WorkflowProblem): string =>
  stripControlCharacters(`${severity} ${path}: ${message} (${code})`);

export async function diffWorkflow(
  nameOrId: string,
  flags: { from?: string; to?: string; file?: string },
  context: CommandContext,
): Promise<CliExitCode> {
  const { client, terminal, json } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const { file } = flags;
  const diff =
    file === undefined
      ? await client.diffWorkflow({ workflowId, from: flags.from, to: flags.to })
      : diffWorkflows((await client.getDraft({ workflowId })).workflow, readWorkflowFile(file));
  const lines = diff.summary.map((line) => stripControlCharacters(String(line["text" as keyof typeof line] ?? "")));
  printItem(diff, lines, context);
  if (!json && lines.length === 0) terminal.info("No changes.");
  return exitCodes.ok;
}

export async function publishWorkflow(
  nameOrId: string,
  flags: { note?: string; revision?: number; allowUnknown?: boolean },
  context: CommandContext,
): Promise<CliExitCode> {
  const { client, terminal } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const body = {
    ...(flags.note !== undefined && { note: flags.note }),
    ...(flags.revision !== undefined && { revision: flags.revision }),
    ...(flags.allowUnknown === true && { allowUnknown: true }),
  };
  const version = await client.publishVersion({ workflowId, body });
  printItem(version, [`${workflowId} version ${version.version}`], context);
  if (!context.json) terminal.info(`next: astra run ${workflowId} --version ${version.version}`);
  return exitCodes.ok;
}

export async function rollbackWorkflow(nameOrId: string, version: number, context: CommandContext): Promise<CliExitCode> {
  const { client, terminal } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const ref = await client.rollbackWorkflow({ workflowId, body: { version } });
  printItem(ref, [`${workflowId} revision ${ref.revision ?? "?"} is version ${version}`], context);
  if (!context.json) terminal.info(`next: astra workflows publish ${workflowId}`);
  return exitCodes.ok;
}
