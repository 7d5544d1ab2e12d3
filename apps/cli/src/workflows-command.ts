// `astra workflows list|show|pull|push|validate|diff|publish|rollback`: kept workflows, as files and as versions.

import { readFileSync, writeFileSync } from "node:fs";
import { checkWorkflow, diffWorkflows } from "@astraflow/graph";
import { Fault, readWorkflow, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import { CliFailure, type ExitCode, exitCodes, usageFailure } from "./failure.ts";
import { type FilterWords, valuesOf } from "./filtering.ts";
import { findWorkflow } from "./finding.ts";
import { type Place, printList, printOne, sayMore, when } from "./place.ts";
import { layTable, tame } from "./terminal.ts";

export async function listWorkflows(words: FilterWords & { search?: string; limit: number }, place: Place): Promise<ExitCode> {
  const { text } = await valuesOf(words, "workflows", place);
  const page = await place.client.listWorkflows({ limit: words.limit, search: words.search ?? text });
  printList(
    {
      items: page.items,
      body: page,
      id: ({ id }) => id,
      columns: [
        { head: "WORKFLOW", of: ({ id }) => id, kind: "id" },
        { head: "NAME", of: ({ metadata }) => metadata.name, kind: "text" },
        { head: "VERSION", of: ({ latestVersion }) => String(latestVersion ?? "") },
        { head: "REVISION", of: ({ revision }) => String(revision) },
        { head: "CHANGED", of: ({ updatedAt }) => when(updatedAt), kind: "when" },
        { head: "NODES", of: ({ nodes }) => String(nodes.length), isWide: true },
        { head: "OWNER", of: ({ metadata }) => metadata.ownerName ?? metadata.ownerId ?? "", isWide: true },
      ],
      none: "No workflow is kept here. Keep one: astra workflows push FILE",
    },
    place,
  );
  sayMore(page, words.limit, place);
  return exitCodes.ok;
}

export async function showWorkflow(word: string, place: Place): Promise<ExitCode> {
  const { client } = place;
  const { id: workflowId } = await findWorkflow(word, client);
  const draft = await client.getDraft({ workflowId });
  if (place.json) return printOne(draft, [], place);
  const { items } = await client.listVersions({ workflowId, limit: 20 });
  const about = layTable([
    ["workflow", workflowId],
    ["name", tame(draft.workflow.metadata.name)],
    [
      "revision",
      `${draft.revision}${draft.isPublished ? " (published)" : ""}, ${when(draft.updatedAt)} by ${tame(draft.updatedBy)}`,
    ],
    ["nodes", String(draft.workflow.nodes.length)],
  ]);
  const nodes = draft.workflow.nodes.map((node) => [
    tame(node.label),
    node.type,
    `${node.package.name}@${node.package.version}`,
    node.id,
  ]);
  const versions = items.map((one) => [String(one.version), when(one.publishedAt), tame(one.publishedBy), tame(one.note ?? "-")]);
  return printOne(
    draft,
    [
      ...about,
      "",
      ...layTable([["NODE", "TYPE", "PACKAGE", "ID"], ...nodes.map((row) => row.map(tame))]),
      ...(versions.length > 0 ? ["", ...layTable([["VERSION", "PUBLISHED", "BY", "NOTE"], ...versions])] : []),
      ...(draft.problems.length > 0 ? ["", ...draft.problems.map(describeProblem)] : []),
    ],
    place,
  );
}

/** The draft or a version as a file that `run`, `push` and `validate` take. */
export async function pullWorkflow(
  word: string,
  words: { version?: number; to?: string },
  { client, terminal }: Place,
): Promise<ExitCode> {
  const { id: workflowId } = await findWorkflow(word, client);
  const workflow =
    words.version === undefined
      ? (await client.getDraft({ workflowId })).workflow
      : (await client.getVersion({ workflowId, version: words.version })).workflow;
  const text = JSON.stringify(workflow, null, 2);
  if (words.to === undefined || words.to === "-") terminal.print(text);
  else {
    try {
      writeFileSync(words.to, `${text}\n`);
    } catch (cause) {
      throw usageFailure(`${words.to} cannot be written (${cause instanceof Error ? cause.message : String(cause)}).`);
    }
    terminal.say(`wrote ${words.to}; next: astra workflows push ${words.to}`);
  }
  return exitCodes.ok;
}

export interface PushWords {
  readonly base?: number;
  readonly dryRun?: boolean;
  readonly allowUnknown?: boolean;
}

/** Keeps a file as the draft; with --base only if the draft is still at that revision. */
export async function pushWorkflow(file: string, words: PushWords, place: Place): Promise<ExitCode> {
  const { client, terminal } = place;
  const workflow = { ...readFile(file), ...(words.allowUnknown === true && { allowUnknown: true }) };
  const check = await client.validateWorkflow({ body: workflow });
  if (words.dryRun === true) return report(check, file, place);
  const ref =
    words.base === undefined
      ? await client.saveWorkflow({ body: workflow })
      : await client.replaceWorkflow(
          { workflowId: workflow.id, body: workflow },
          { headers: { "if-match": `"r${words.base}"` } },
        );
  printOne(ref, [`${ref.workflowId} revision ${ref.revision ?? "?"}`], place);
  if (!place.json) {
    for (const problem of check.problems) terminal.say(describeProblem(problem));
    terminal.say(`next: astra run ${ref.workflowId}, astra workflows publish ${ref.workflowId}`);
  }
  return exitCodes.ok;
}

function readFile(file: string): Workflow {
  const source = file === "-" ? "stdin" : file;
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file === "-" ? 0 : file, "utf8"));
  } catch (cause) {
    throw usageFailure(`${source} cannot be read as JSON (${cause instanceof Error ? cause.message : String(cause)}).`);
  }
  // A whole request holds its workflow too.
  const own = typeof value === "object" && value !== null && "workflow" in value ? value.workflow : value;
  const workflow = readWorkflow(own);
  if (!(workflow instanceof Fault)) return workflow;
  throw new CliFailure(exitCodes.usage, { error: workflow.code, message: `${source}: ${workflow.message}` });
}

/** Asks the scheduler, which knows the packages; --local looks at the file alone. */
export async function validateWorkflow(file: string, words: { local?: boolean }, place: Place): Promise<ExitCode> {
  const workflow = readFile(file);
  if (words.local !== true) return report(await place.client.validateWorkflow({ body: workflow }), file, place);
  const problems = checkWorkflow(workflow);
  return report({ isValid: !problems.some(({ severity }) => severity === "error"), problems }, file, place);
}

function report(check: { isValid: boolean; problems: readonly WorkflowProblem[] }, file: string, place: Place): ExitCode {
  const verdict = check.isValid ? `${file} can run` : `${file} cannot run`;
  printOne(check, [...check.problems.map(describeProblem), tame(verdict)], place);
  return check.isValid ? exitCodes.ok : exitCodes.failed;
}

const describeProblem = ({ severity, path, code, message }: WorkflowProblem): string =>
  tame(`${severity} ${path}: ${message} (${code})`);

export async function diffWorkflow(
  word: string,
  words: { from?: string; to?: string; file?: string },
  place: Place,
): Promise<ExitCode> {
  const { client, terminal, json } = place;
  const { id: workflowId } = await findWorkflow(word, client);
  const { file } = words;
  const diff =
    file === undefined
      ? await client.diffWorkflow({ workflowId, from: words.from, to: words.to })
      : diffWorkflows((await client.getDraft({ workflowId })).workflow, readFile(file));
  const lines = diff.summary.map((line) => tame(String(line["text" as keyof typeof line] ?? "")));
  printOne(diff, lines, place);
  if (!json && lines.length === 0) terminal.say("They are the same.");
  return exitCodes.ok;
}

export async function publishWorkflow(
  word: string,
  words: { note?: string; revision?: number; allowUnknown?: boolean },
  place: Place,
): Promise<ExitCode> {
  const { client, terminal } = place;
  const { id: workflowId } = await findWorkflow(word, client);
  const body = {
    ...(words.note !== undefined && { note: words.note }),
    ...(words.revision !== undefined && { revision: words.revision }),
    ...(words.allowUnknown === true && { allowUnknown: true }),
  };
  const version = await client.publishVersion({ workflowId, body });
  printOne(version, [`${workflowId} version ${version.version}`], place);
  if (!place.json) terminal.say(`next: astra run ${workflowId} --version ${version.version}`);
  return exitCodes.ok;
}

export async function rollbackWorkflow(word: string, version: number, place: Place): Promise<ExitCode> {
  const { client, terminal } = place;
  const { id: workflowId } = await findWorkflow(word, client);
  const ref = await client.rollbackWorkflow({ workflowId, body: { version } });
  printOne(ref, [`${workflowId} revision ${ref.revision ?? "?"} is version ${version}`], place);
  if (!place.json) terminal.say(`next: astra workflows publish ${workflowId}`);
  return exitCodes.ok;
}
