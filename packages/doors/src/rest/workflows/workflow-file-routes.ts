// The routes that hand a workflow out as one file and take it in again, with its versions.

import { canonicalJson, checkPackages, checkWorkflow } from "@astraflow/graph";
import {
  Fault,
  fault,
  type JsonValue,
  limits,
  readWorkflowFile,
  versionsInFileMax,
  type Workflow,
  workflowFileFormat,
} from "@astraflow/protocol";
import { findProblems, isError, parseWorkflow, throwOnErrors, uuidFromText } from "@astraflow/services";
import { type RestCall, type RouteHandler, readJsonBody } from "../requests/rest-call.ts";
import {
  isConflict,
  newWorkflowDocument,
  revisionMadeBy,
  type WorkflowStore,
  type WorkflowStoreOptions,
  withoutServerFields,
  workflowIdempotencyKeyOf,
} from "./workflow-store.ts";
import { versionPut, type WorkflowVersionDocument, type WorkflowVersionStore } from "./workflow-version-routes.ts";
import { isoTime, presentWorkflow, workflowRefReply } from "./workflow-view.ts";

type FileRoutes = "exportWorkflow" | "importWorkflow";
type WorkflowFileBody = Exclude<ReturnType<typeof readWorkflowFile>, Fault>;

/** An export leaves room for the words around its workflows, so that an import takes it. */
const fileCharsMax = limits.requestBytesMax - 64 * 1024;
const versionsPerPage = 25;

export function fileHandlers(
  options: WorkflowStoreOptions,
  store: WorkflowStore,
  versions: WorkflowVersionStore,
): Record<FileRoutes, RouteHandler> {
  const { digest, environment, catalogues } = options;

  /** The newest versions whose texts fit, oldest first. */
  const readVersionsThatFit = async (tenant: string, id: string, charsUsed: number): Promise<WorkflowVersionDocument[]> => {
    const kept: WorkflowVersionDocument[] = [];
    let cursor: string | undefined;
    let chars = charsUsed;
    for (;;) {
      const page = await versions.list(tenant, id, { limit: versionsPerPage, cursor });
      for (const version of page.items) {
        // In bytes, as the import counts: a text of another alphabet is longer than it looks.
        chars += Buffer.byteLength(JSON.stringify(version));
        if (chars > fileCharsMax || kept.length === versionsInFileMax) return kept.reverse();
        kept.push(version);
      }
      if (page.nextCursor === null) return kept.reverse();
      cursor = page.nextCursor;
    }
  };

  return {
    async exportWorkflow(call) {
      const { head: document, asOf } = await store.find(call.identity, call.params["workflowId"] ?? "");
      const {
        revision: _revision,
        latestVersion: _latest,
        createdAt: _created,
        updatedAt: _updated,
        ...workflow
      } = presentWorkflow(document);
      const kept = await readVersionsThatFit(call.identity.tenant, document.id, Buffer.byteLength(JSON.stringify(workflow)));
      const { previewImage, ...bare } = workflow;
      const body = {
        format: workflowFileFormat,
        workflow: bare,
        ...(previewImage !== undefined && { previewImage }),
        versions: kept.map(({ version, at, by, note, workflow: definition }) => ({
          version,
          publishedAt: isoTime(at),
          publishedBy: by,
          ...(note !== undefined && { note }),
          workflow: definition,
        })),
        ...(document.version > kept.length && { omitted: document.version - kept.length }),
        asOf,
      };
      return { body, headers: { "content-disposition": `attachment; filename="workflow-${document.id}.json"` } };
    },

    async importWorkflow(call) {
      const { ids = "keep" } = call.query;
      if (ids !== "keep" && ids !== "renew")
        throw fault("E.REQUEST.INVALID", "query.ids must be keep or renew", { path: "query.ids" });
      const body = readJsonBody(call);
      const file = readWorkflowFile(body);
      if (file instanceof Fault) throw file;
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "importWorkflow", ids, body });
      const { tenant, user } = call.identity;
      const renewed =
        ids === "renew" ? uuidFromText(`import ${tenant} ${user} ${idempotencyKey?.searchTerm ?? environment.ids.next()}`) : null;
      const imported = readImport(call, file, renewed, store.now(), digest);
      const head = {
        ...newWorkflowDocument(call, store.now(), imported.workflow, idempotencyKey),
        ...imported.numbers,
        preview: file.previewImage ?? null,
      };
      // Of what was published elsewhere only packages are looked for: versions and types of the past may be gone.
      const allow = { allowUnknown: file.allowUnknown ?? false };
      const problems = await findProblems(catalogues, tenant, (catalogue) =>
        imported.versions.flatMap(({ workflow }) => checkPackages(workflow, catalogue, allow)),
      );
      const before = problems.some(isError) ? revisionMadeBy((await store.look(tenant, head.id)).head, idempotencyKey) : null;
      if (before !== null) return workflowRefReply(head.id, before, true);
      throwOnErrors(problems);
      const step = {
        head,
        puts: imported.versions.map((version) => versionPut(version, null)),
        data: { versions: imported.versions.length },
      };
      const { repeated } = await store
        .write(call, 0, step, { action: "workflow.import", ask: idempotencyKey })
        .catch((problem: unknown) => {
          throw isConflict(problem) ? idTaken(head.id) : problem;
        });
      return workflowRefReply(head.id, head.revision, repeated);
    },
  };
}

const idTaken = (id: string): Fault =>
  fault("E.CONFLICT", `workflow ${id} is there already, or was and is deleted; import it with ids=renew`, { workflowId: id });

/** The file's workflows checked one by one. What was published must be able to run; the draft may be unfinished. */
function readImport(
  call: RestCall,
  file: WorkflowFileBody,
  renewed: string | null,
  now: number,
  digest: (text: string) => string,
) {
  const read = (value: JsonValue): Workflow => withoutServerFields(parseWorkflow(value, renewed ?? ""));
  const withImportedId = (workflow: Workflow): Workflow => (renewed === null ? workflow : withNewId(workflow, renewed));
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
      by: renewed === null ? one.publishedBy : call.identity.user,
      digest: digest(canonicalJson(definition)),
      ...(one.note !== undefined && { note: one.note }),
      workflow: definition,
    });
  }
  const last = versions.at(-1);
  const isPublished = last !== undefined && last.digest === digest(canonicalJson(workflow));
  return { workflow, versions, numbers: { version: last?.version ?? 0, publishedRevision: isPublished ? 1 : 0 } };
}

/** The same workflow under another id, which remembers where it came from. */
const withNewId = (workflow: Workflow, id: string): Workflow => ({
  ...workflow,
  id,
  metadata: { ...workflow.metadata, originId: workflow.metadata.originId ?? workflow.id },
});

const invalidVersionField = (index: number, field: string, what: string): Fault =>
  fault("E.REQUEST.INVALID", `body.versions.${index}.${field} ${what}`, { path: `body.versions.${index}.${field}` });
