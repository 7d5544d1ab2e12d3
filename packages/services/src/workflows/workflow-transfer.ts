// A workflow as one file with its versions: exported, and imported again.

import { canonicalJson, checkPackages, checkWorkflow } from "@astraflow/graph";
import {
  type Fault,
  fault,
  type JsonValue,
  limits,
  type readWorkflowFile,
  versionsInFileMax,
  type Workflow,
  workflowFileFormat,
} from "@astraflow/protocol";
import { uuidFromText } from "../documents/derived-names.ts";
import { isConflict } from "../documents/documents.ts";
import type { Caller } from "../identity/caller.ts";
import { isoTime } from "../presentation/run-view.ts";
import { findProblems, isError, parseWorkflow, throwOnErrors } from "./workflow-checks.ts";
import type { WrittenWorkflow } from "./workflow-drafts.ts";
import type { WorkflowServices } from "./workflow-services.ts";
import { newWorkflowDocument, revisionMadeBy, type WorkflowIdempotencyKey, withoutServerFields } from "./workflow-store.ts";
import { versionPut, type WorkflowVersionDocument, type WorkflowVersionStore } from "./workflow-versions.ts";
import { presentWorkflow } from "./workflow-view.ts";

export type WorkflowFileBody = Exclude<ReturnType<typeof readWorkflowFile>, Fault>;

/** Leaves room for the fields around the workflows, so that an import accepts every export. */
const fileBytesMax = limits.requestBytesMax - 64 * 1024;
const versionsPerPage = 25;

export async function exportWorkflow({ store, versions }: WorkflowServices, caller: Caller, id: string) {
  const { document, asOf } = await store.find(caller.identity, id);
  const {
    revision: _revision,
    latestVersion: _latest,
    createdAt: _created,
    updatedAt: _updated,
    ...workflow
  } = presentWorkflow(document);
  const bytesUsed = Buffer.byteLength(JSON.stringify(workflow));
  const exported = await readVersionsThatFit(versions, caller.identity.tenant, document.id, bytesUsed);
  const { previewImage, ...bare } = workflow;
  return {
    format: workflowFileFormat,
    workflow: bare,
    ...(previewImage !== undefined && { previewImage }),
    versions: exported.map(({ version, at, by, note, workflow: definition }) => ({
      version,
      publishedAt: isoTime(at),
      publishedBy: by,
      ...(note !== undefined && { note }),
      workflow: definition,
    })),
    ...(document.version > exported.length && { omitted: document.version - exported.length }),
    asOf,
  };
}

/** The newest versions that fit, oldest first. */
async function readVersionsThatFit(
  versions: WorkflowVersionStore,
  tenant: string,
  id: string,
  bytesUsed: number,
): Promise<WorkflowVersionDocument[]> {
  const fitting: WorkflowVersionDocument[] = [];
  let cursor: string | undefined;
  let bytes = bytesUsed;
  for (;;) {
    const page = await versions.list(tenant, id, { limit: versionsPerPage, cursor });
    for (const version of page.items) {
      bytes += Buffer.byteLength(JSON.stringify(version));
      if (bytes > fileBytesMax || fitting.length === versionsInFileMax) return fitting.reverse();
      fitting.push(version);
    }
    if (page.nextCursor === null) return fitting.reverse();
    cursor = page.nextCursor;
  }
}

/** Creates a workflow from a file, under its own id or a new one. */
export async function importWorkflow(
  { store, catalogues, environment, digest }: WorkflowServices,
  caller: Caller,
  file: WorkflowFileBody,
  ids: "keep" | "renew",
  ask: WorkflowIdempotencyKey | null,
): Promise<WrittenWorkflow> {
  const { tenant, user } = caller.identity;
  const newId = ids === "keep" ? null : uuidFromText(`import ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
  const imported = readImport(caller, file, newId, store.now(), digest);
  const document = {
    ...newWorkflowDocument(caller, store.now(), imported.workflow, ask),
    ...imported.numbers,
    preview: file.previewImage ?? null,
  };
  const { id: workflowId, revision } = document;
  // Of versions published elsewhere only the packages are checked: their versions and types may be gone by now.
  const allow = { allowUnknown: file.allowUnknown ?? false };
  const problems = await findProblems(catalogues, tenant, (catalogue) =>
    imported.versions.flatMap(({ workflow }) => checkPackages(workflow, catalogue, allow)),
  );
  const before = problems.some(isError) ? revisionMadeBy((await store.readAny(tenant, workflowId)).document, ask) : null;
  if (before !== null) return { workflowId, revision: before, repeated: true };
  throwOnErrors(problems);
  const puts = imported.versions.map((version) => versionPut(version, null));
  const step = { document, puts, data: { versions: puts.length } };
  const { repeated } = await store.write(caller, 0, step, { action: "workflow.import", ask }).catch((problem: unknown) => {
    throw isConflict(problem) ? idTaken(workflowId) : problem;
  });
  return { workflowId, revision, repeated };
}

const idTaken = (id: string): Fault =>
  fault("E.CONFLICT", `workflow ${id} exists already, or existed and was deleted; import it with ids=renew`, { workflowId: id });

/** Checks the workflows of a file one by one. Published versions must be able to run; the draft may be unfinished. */
function readImport(caller: Caller, file: WorkflowFileBody, newId: string | null, now: number, digest: (text: string) => string) {
  const read = (value: JsonValue): Workflow => withoutServerFields(parseWorkflow(value, newId ?? ""));
  const withImportedId = (workflow: Workflow): Workflow => (newId === null ? workflow : withNewId(workflow, newId));
  const draft = read(file.workflow);
  const workflow = withImportedId(draft);
  const versions: WorkflowVersionDocument[] = [];
  for (const [index, one] of file.versions.entries()) {
    const published = read(one.workflow);
    if (published.id !== draft.id) throw invalidVersionField(index, "workflow.id", `must be ${draft.id}, as that of the draft`);
    const definition = withImportedId(published);
    if (one.version <= (versions.at(-1)?.version ?? 0))
      throw invalidVersionField(index, "version", "must be higher than the one before");
    throwOnErrors(checkWorkflow(definition));
    versions.push({
      workflowId: workflow.id,
      version: one.version,
      revision: 1,
      at: Math.min(Date.parse(one.publishedAt), now),
      by: newId === null ? one.publishedBy : caller.identity.user,
      digest: digest(canonicalJson(definition)),
      ...(one.note !== undefined && { note: one.note }),
      workflow: definition,
    });
  }
  const last = versions.at(-1);
  const isPublished = last !== undefined && last.digest === digest(canonicalJson(workflow));
  return { workflow, versions, numbers: { version: last?.version ?? 0, publishedRevision: isPublished ? 1 : 0 } };
}

/** The same workflow with another id, and its first id as its origin. */
export const withNewId = (workflow: Workflow, id: string): Workflow => ({
  ...workflow,
  id,
  metadata: { ...workflow.metadata, originId: workflow.metadata.originId ?? workflow.id },
});

const invalidVersionField = (index: number, field: string, what: string): Fault =>
  fault("E.REQUEST.INVALID", `body.versions.${index}.${field} ${what}`, { path: `body.versions.${index}.${field}` });
