// A workflow as one file with its versions: exported, and imported again.

import { canonicalJson, checkWorkflow } from "@astraflow/graph";
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
import type { Caller } from "../identity/identity.ts";
import { isoTime } from "../presentation/iso-time.ts";
import { findPackageProblems, parseWorkflow, throwOnErrors } from "./workflow-checks.ts";
import {
  newWorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WrittenWorkflow,
  withoutServerFields,
} from "./workflow-store.ts";
import { versionPut, type WorkflowVersionDocument, type WorkflowVersions } from "./workflow-versions.ts";
import { presentWorkflow } from "./workflow-view.ts";

type WorkflowFileBody = Exclude<ReturnType<typeof readWorkflowFile>, Fault>;

/** Leaves room for the fields around the workflows, so that an import accepts every export. */
const fileBytesMax = limits.requestBytesMax - 64 * 1024;
const versionsPerPage = 25;

export class WorkflowFiles {
  readonly #store: WorkflowStore;
  readonly #versions: WorkflowVersions;

  constructor(store: WorkflowStore, versions: WorkflowVersions) {
    this.#store = store;
    this.#versions = versions;
  }

  async export(caller: Caller, id: string) {
    const { document, asOf } = await this.#store.find(caller.identity, id);
    const { revision: _revision, latestVersion: _latest, createdAt: _created, ...rest } = presentWorkflow(document);
    const { updatedAt: _updated, ...workflow } = rest;
    const bytesUsed = Buffer.byteLength(JSON.stringify(workflow));
    const exported = await this.#readVersionsThatFit(caller.identity.tenant, document.id, bytesUsed);
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

  /** Creates a workflow from a file, under its own id or a new one. */
  async import(
    caller: Caller,
    file: WorkflowFileBody,
    ids: "keep" | "renew",
    ask: WorkflowIdempotencyKey | null,
  ): Promise<WrittenWorkflow> {
    const { catalogues, environment, digest } = this.#store.context;
    const { tenant, user } = caller.identity;
    const newId = ids === "keep" ? null : uuidFromText(`import ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
    const imported = readImport(caller, file, newId, this.#store.now(), digest);
    const document = {
      ...newWorkflowDocument(caller, this.#store.now(), imported.workflow, ask),
      ...imported.numbers,
      preview: file.previewImage ?? null,
    };
    const published = imported.versions.map(({ workflow }) => workflow);
    const problems = await findPackageProblems(catalogues, tenant, published, { allowUnknown: file.allowUnknown ?? false });
    const puts = imported.versions.map((version) => versionPut(version, null));
    const write = { document, puts, data: { versions: puts.length } };
    return this.#store.create(caller, write, problems, { action: "workflow.import", ask }).catch((problem: unknown) => {
      throw isConflict(problem) ? idTaken(document.id) : problem;
    });
  }

  /** The newest versions that fit, oldest first. */
  async #readVersionsThatFit(tenant: string, id: string, bytesUsed: number): Promise<WorkflowVersionDocument[]> {
    const fitting: WorkflowVersionDocument[] = [];
    let cursor: string | undefined;
    let bytes = bytesUsed;
    for (;;) {
      const page = await this.#versions.list(tenant, id, { limit: versionsPerPage, cursor });
      for (const version of page.items) {
        bytes += Buffer.byteLength(JSON.stringify(version));
        if (bytes > fileBytesMax || fitting.length === versionsInFileMax) return fitting.reverse();
        fitting.push(version);
      }
      if (page.nextCursor === null) return fitting.reverse();
      cursor = page.nextCursor;
    }
  }
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
