// `astra workflows list|show|pull|push|validate|diff|publish|rollback`: stored workflows, as files and as versions.

import { writeFileSync } from "node:fs";
import { diffWorkflows } from "@astraflow/graph";
import { omitUndefined, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { type CommandContext, printItem, printPage, type Switches, type TextInput } from "../api/command-context.ts";
import { type ListFlags, resolveFilter } from "../lookup/list-filters.ts";
import { findWorkflow, loadDefinition } from "../lookup/name-lookup.ts";
import { readListPage } from "../lookup/pages.ts";
import { CliFailure, type ExitCode, errorMessage, exitCodes, nameFlags, usageFailure } from "../output/cli-failure.ts";
import { formatInstant } from "../output/format.ts";
import { formatTextTable } from "../output/table.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { findLocalProblems, readWorkflowFile, readWorkflowValue } from "./workflow-file.ts";

export async function listWorkflows(context: CommandContext, flags: ListFlags & TextInput<never, "search">): Promise<ExitCode> {
  const { text } = await resolveFilter(flags, "workflows", context);
  const search = flags.search ?? text;
  const page = await readListPage(flags, (paging) => context.client.listWorkflows({ ...paging, search }));
  return printPage(context, page, {
    id: ({ id }) => id,
    columns: [
      { header: "WORKFLOW", value: ({ id }) => id, kind: "id", isKept: true },
      { header: "NAME", value: ({ metadata }) => metadata.name, kind: "text", isKept: true },
      { header: "VERSION", value: ({ latestVersion }) => String(latestVersion ?? "") },
      { header: "REVISION", value: ({ revision }) => String(revision) },
      { header: "CHANGED", value: ({ updatedAt }) => formatInstant(updatedAt), kind: "when" },
      { header: "NODES", value: ({ nodes }) => String(nodes.length), isWide: true },
      { header: "OWNER", value: ({ metadata }) => metadata.ownerName ?? metadata.ownerId ?? "", isWide: true },
    ],
    emptyMessage: "No stored workflows. Store one with: astra workflows push FILE",
  });
}

export async function showWorkflow(context: CommandContext, { workflow: nameOrId }: TextInput<"workflow">): Promise<ExitCode> {
  const { client } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const draft = await client.getDraft({ workflowId });
  const { workflow, problems } = draft;
  const { items } = context.json ? { items: [] } : await client.listVersions({ workflowId, limit: 20 });
  const state = `${draft.revision}${draft.isPublished ? " (published)" : ""}`;
  const about = [
    ["workflow", workflowId],
    ["name", workflow.metadata.name],
    ["revision", `${state}, ${formatInstant(draft.updatedAt)} by ${draft.updatedBy}`],
    ["nodes", String(workflow.nodes.length)],
  ];
  const nodes = workflow.nodes.map((node) => [node.label, node.type, `${node.package.name}@${node.package.version}`, node.id]);
  const versions = items.map((one) => [String(one.version), formatInstant(one.publishedAt), one.publishedBy, one.note ?? "-"]);
  return printItem(context, draft, [
    ...formatTextTable(about),
    "",
    ...formatTextTable([["NODE", "TYPE", "PACKAGE", "ID"], ...nodes]),
    ...(versions.length > 0 ? ["", ...formatTextTable([["VERSION", "PUBLISHED", "BY", "NOTE"], ...versions])] : []),
    ...(problems.length > 0 ? ["", ...problems.map(describeProblem)] : []),
  ]);
}

/** Writes the draft or a version as a file that `run`, `push` and `validate` read. */
export async function pullWorkflow(
  { client, terminal }: CommandContext,
  { workflow: nameOrId, version, to }: TextInput<"workflow", "to"> & { version?: number },
): Promise<ExitCode> {
  const { id } = await findWorkflow(nameOrId, client);
  const text = JSON.stringify(await loadDefinition(id, version ?? "draft", client), null, 2);
  if (to === undefined || to === "-") terminal.print(text);
  else {
    try {
      writeFileSync(to, `${text}\n`);
    } catch (cause) {
      throw usageFailure(`${to} cannot be written (${errorMessage(cause)}).`);
    }
    terminal.info(`wrote ${to}; next: astra workflows push ${to}`);
  }
  return exitCodes.ok;
}

interface PushInput extends TextInput<"file">, Switches<"dryRun" | "allowUnknown"> {
  readonly base?: number;
}

/** Stores a file as the draft; with --base only if the draft is still at that revision. */
export async function pushWorkflow(context: CommandContext, { file, base, dryRun, allowUnknown }: PushInput): Promise<ExitCode> {
  const { client, terminal } = context;
  const workflow = { ...readWorkflowFile(file), ...(allowUnknown === true && { allowUnknown: true }) };
  const check = await client.validateWorkflow({ body: workflow });
  if (dryRun === true) return printValidation(context, check, file);
  const request = { workflowId: workflow.id, body: workflow };
  const ref =
    base === undefined
      ? await client.saveWorkflow({ body: workflow })
      : await client.replaceWorkflow(request, { headers: { "if-match": `"r${base}"` } });
  printItem(context, ref, `${ref.workflowId} revision ${ref.revision ?? "?"}`);
  if (!context.json) {
    for (const problem of check.problems) terminal.info(describeProblem(problem));
    terminal.info(`next: astra run ${ref.workflowId}, astra workflows publish ${ref.workflowId}`);
  }
  return exitCodes.ok;
}

/** Asks the scheduler, which knows the packages; --local checks only the files. All files are checked, whatever is found in one. */
export async function validateWorkflow(
  context: CommandContext,
  { file: files, local }: Switches<"local"> & { readonly file: readonly string[] },
): Promise<ExitCode> {
  const [only] = files;
  if (only !== undefined && files.length === 1) return printValidation(context, await checkFile(context, only, local), only);
  const checks = [];
  let code: ExitCode = exitCodes.ok;
  for (const file of files) {
    const check = await checkFile(context, file, local).catch((cause: unknown) => toUnreadableFile(cause));
    if (!check.isValid && code !== exitCodes.usage) code = "isUnreadable" in check ? exitCodes.usage : exitCodes.failed;
    checks.push({ file, isValid: check.isValid, problems: check.problems });
  }
  const lines = checks.flatMap((check) => renderValidation(check, check.file));
  printItem(context, { isValid: code === exitCodes.ok, files: checks }, lines);
  return code;
}

async function checkFile({ client }: CommandContext, file: string, local = false): Promise<WorkflowCheck> {
  const { value } = readWorkflowValue(file);
  // Sent as it is: the scheduler lists everything that is wrong with its fields.
  if (!local) return client.validateWorkflow({ body: value as Workflow });
  const problems = findLocalProblems(value);
  return { isValid: !problems.some(({ severity }) => severity === "error"), problems };
}

/** A file that is no JSON is a problem of that file; a scheduler that does not answer ends the command. */
function toUnreadableFile(cause: unknown): WorkflowCheck & { readonly isUnreadable: true } {
  if (!(cause instanceof CliFailure) || cause.exitCode !== exitCodes.usage) throw cause;
  const { error: code, message } = cause.body;
  return { isValid: false, isUnreadable: true, problems: [{ path: "/", code, message, severity: "error" }] };
}

interface WorkflowCheck {
  readonly isValid: boolean;
  readonly problems: readonly WorkflowProblem[];
}

function printValidation(context: CommandContext, check: WorkflowCheck, file: string): ExitCode {
  printItem(context, check, renderValidation(check, file));
  return check.isValid ? exitCodes.ok : exitCodes.failed;
}

const renderValidation = ({ isValid, problems }: WorkflowCheck, file: string): string[] => [
  ...problems.map(describeProblem),
  isValid ? `${file} can run` : `${file} cannot run`,
];

const describeProblem = ({ severity, path, code, message }: WorkflowProblem): string =>
  stripControlCharacters(`${severity} ${path}: ${nameFlags(message)} (${code})`);

export async function diffWorkflow(
  context: CommandContext,
  { workflow: nameOrId, from, to, file }: TextInput<"workflow", "from" | "to" | "file">,
): Promise<ExitCode> {
  const { client } = context;
  const { id: workflowId } = await findWorkflow(nameOrId, client);
  const diff =
    file === undefined
      ? await client.diffWorkflow({ workflowId, from, to })
      : diffWorkflows(await loadDefinition(workflowId, "draft", client), readWorkflowFile(file));
  const lines = diff.summary.map((line) => String(line["text" as keyof typeof line] ?? ""));
  return printItem(context, diff, lines, lines.length === 0 && "No changes.");
}

interface PublishInput extends TextInput<"workflow", "note">, Switches<"allowUnknown"> {
  readonly revision?: number;
}

export async function publishWorkflow(context: CommandContext, input: PublishInput): Promise<ExitCode> {
  const { note, revision, allowUnknown = false } = input;
  const { id: workflowId } = await findWorkflow(input.workflow, context.client);
  const body = { ...omitUndefined({ note, revision }), ...(allowUnknown && { allowUnknown }) };
  const published = await context.client.publishVersion({ workflowId, body });
  const hint = `next: astra run ${workflowId} --version ${published.version}`;
  return printItem(context, published, `${workflowId} version ${published.version}`, hint);
}

export async function rollbackWorkflow(
  context: CommandContext,
  { workflow: nameOrId, version }: TextInput<"workflow"> & { version: number },
): Promise<ExitCode> {
  const { id: workflowId } = await findWorkflow(nameOrId, context.client);
  const ref = await context.client.rollbackWorkflow({ workflowId, body: { version } });
  const line = `${workflowId} revision ${ref.revision ?? "?"} is version ${version}`;
  return printItem(context, ref, line, `next: astra workflows publish ${workflowId}`);
}
