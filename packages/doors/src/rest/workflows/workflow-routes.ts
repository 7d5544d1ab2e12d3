// The routes about workflows: kept, shown, replaced, deleted, checked. Drafts, versions, files and packages are in files of their own.

import { Fault, fault, findWorkflowFaults, readWorkflow, readWorkflowPreview, type Workflow } from "@astraflow/protocol";
import {
  type Catalogue,
  checkPreviewSize,
  checkWithFreshCatalogue,
  findProblems,
  findProblemsIn,
  isError,
  parseWorkflow,
  problemsMax,
  readAllowUnknown,
  throwOnErrors,
  uuidFromText,
  withDefaultId,
} from "@astraflow/services";
import { type RestCall, type RouteHandler, readJsonBody, readPageLimit } from "../requests/rest-call.ts";
import { editsBetween } from "./draft-edits.ts";
import { draftHandlers } from "./workflow-draft-routes.ts";
import { fileHandlers } from "./workflow-file-routes.ts";
import { workflowPackageHandlers } from "./workflow-package-routes.ts";
import { readRevisionCheck } from "./workflow-request-readers.ts";
import {
  createWorkflowStore,
  isConflict,
  mayAccessAll,
  newWorkflowDocument,
  nextWorkflowRevision,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WorkflowStoreOptions,
  withoutServerFields,
  workflowIdempotencyKeyOf,
  workflowLimits,
} from "./workflow-store.ts";
import { createWorkflowVersionStore, versionHandlers } from "./workflow-version-routes.ts";
import { presentWorkflow, repeatedReply, workflowEtag, workflowRefReply } from "./workflow-view.ts";

type WorkflowRoutes = "listWorkflows" | "validateWorkflow" | "getWorkflow" | "replaceWorkflow" | "deleteWorkflow";

export function workflowHandlers(options: WorkflowStoreOptions) {
  const store = createWorkflowStore(options);
  const versions = createWorkflowVersionStore(options);
  return {
    ...workflowCrudHandlers(options, store),
    saveWorkflow: saveHandler(options, store),
    ...previewHandlers(store),
    ...draftHandlers(options, store, versions),
    ...versionHandlers(options, store, versions),
    ...fileHandlers(options, store, versions),
    ...workflowPackageHandlers(options, store),
  };
}

function workflowCrudHandlers({ catalogues }: WorkflowStoreOptions, store: WorkflowStore): Record<WorkflowRoutes, RouteHandler> {
  return {
    async listWorkflows(call) {
      const { cursor, search = "" } = call.query;
      const { items, ...page } = await store.list(call.identity, { limit: readPageLimit(call.query), cursor, search });
      return { body: { items: items.map(presentWorkflow), ...page } };
    },

    async validateWorkflow(call) {
      const body = readJsonBody(call);
      const options = { allowUnknown: readAllowUnknown(body) };
      // One that is new has no id yet; saving gives it one.
      const sent = withDefaultId(body, uuidFromText("new"));
      const workflow = readWorkflow(sent);
      const check = (catalogue: Catalogue) => ({
        problems:
          workflow instanceof Fault
            ? findWorkflowFaults(sent, problemsMax).map(toProblem)
            : findProblemsIn(workflow, catalogue, options),
        asOf: catalogue.asOf,
      });
      const { problems, asOf } = await checkWithFreshCatalogue(
        catalogues,
        call.identity.tenant,
        check,
        (result) => result.problems,
      );
      return { body: { isValid: !problems.some(isError), problems: problems.slice(0, problemsMax), asOf } };
    },

    async getWorkflow(call) {
      const { head: document, asOf } = await store.find(call.identity, call.params["workflowId"] ?? "");
      return { body: { ...presentWorkflow(document), asOf }, headers: { etag: workflowEtag(document) } };
    },

    async replaceWorkflow(call) {
      const id = call.params["workflowId"] ?? "";
      const checkRevision = readRevisionCheck(call);
      const body = readJsonBody(call);
      const { head: found } = await store.find(call.identity, id);
      checkRevision(found);
      const workflow = checkPreviewSize(parseWorkflow(body, id));
      if (workflow.id !== id) throw idMismatch(id);
      const options = { allowUnknown: readAllowUnknown(body) };
      const check = (catalogue: Catalogue) => findProblemsIn(workflow, catalogue, options);
      throwOnErrors(await findProblems(catalogues, call.identity.tenant, check));
      const { head: document } = await store.change(call, id, {
        action: "workflow.update",
        ask: null,
        decide(now) {
          checkRevision(now);
          return { head: replaceDraft(now, call, store.now(), workflow, null) };
        },
      });
      return { body: { workflowId: id, revision: document.revision }, headers: { etag: workflowEtag(document) } };
    },

    async deleteWorkflow(call) {
      const checkRevision = readRevisionCheck(call);
      await store.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.delete",
        ask: null,
        decide(now) {
          checkRevision(now);
          return { head: { ...now, deletedAt: store.now() } };
        },
      });
      return { body: "" };
    },
  };
}

/** Creates, replaces, or brings back what was deleted; whose it is stays. */
function saveHandler({ digest, environment, catalogues }: WorkflowStoreOptions, store: WorkflowStore): RouteHandler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const body = readJsonBody(call);
    const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "saveWorkflow", body });
    const workflow = checkPreviewSize(
      parseWorkflow(body, uuidFromText(`workflow ${tenant} ${user} ${idempotencyKey?.searchTerm ?? environment.ids.next()}`)),
    );
    const options = { allowUnknown: readAllowUnknown(body) };
    const problems = await findProblems(catalogues, tenant, (catalogue) => findProblemsIn(workflow, catalogue, options));
    for (let attempts = 1; ; attempts += 1) {
      const { head: document, rev } = await store.look(tenant, workflow.id);
      if (document !== null && document.owner !== user && !mayAccessAll(call.identity)) throw workflowOwnedByOther(workflow.id);
      const before = revisionMadeBy(document, idempotencyKey);
      if (before !== null) return workflowRefReply(workflow.id, before, true);
      throwOnErrors(problems);
      const now = store.now();
      const next =
        document === null
          ? newWorkflowDocument(call, now, workflow, idempotencyKey)
          : replaceDraft(document, call, now, workflow, idempotencyKey);
      const action = document === null ? "workflow.create" : "workflow.update";
      try {
        const { repeated } = await store.write(call, rev, { head: next }, { action, ask: idempotencyKey });
        return repeated
          ? repeatedReply(workflow.id, (await store.look(tenant, workflow.id)).head, idempotencyKey)
          : workflowRefReply(workflow.id, next.revision, false);
      } catch (problem) {
        if (!isConflict(problem) || attempts >= workflowLimits.attemptsMax) throw problem;
      }
    }
  };
}

function previewHandlers(store: WorkflowStore): Record<"getWorkflowPreview" | "putWorkflowPreview", RouteHandler> {
  const view = (preview: string | null) => (preview === null ? {} : { previewImage: preview });
  return {
    async getWorkflowPreview(call) {
      const { head: document, asOf } = await store.find(call.identity, call.params["workflowId"] ?? "");
      return { body: { ...view(document.preview), asOf } };
    },
    async putWorkflowPreview(call) {
      const request = readWorkflowPreview(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const preview = request.previewImage ?? null;
      await store.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.preview",
        ask: null,
        decide: (now) => ({ head: { ...now, preview } }),
      });
      return { body: view(preview) };
    },
  };
}

/** The same again is no new revision: an editor that saves on leaving must not outdate the ETags of others. */
function replaceDraft(
  document: WorkflowDocument,
  call: RestCall,
  now: number,
  workflow: Workflow,
  idempotencyKey: WorkflowIdempotencyKey | null,
): WorkflowDocument {
  const edits = editsBetween(document.workflow, withoutServerFields(workflow));
  const isSamePicture = (workflow.previewImage ?? document.preview) === document.preview;
  const isSame = edits?.length === 0 && isSamePicture && document.deletedAt === null && idempotencyKey === null;
  return isSame ? document : nextWorkflowRevision(document, call, now, { workflow, edits, ask: idempotencyKey });
}

const workflowOwnedByOther = (id: string): Fault =>
  fault("E.AUTH.FORBIDDEN", `workflow ${id} is another's; save yours under an id of its own`);
const idMismatch = (id: string): Fault =>
  fault("E.REQUEST.INVALID", `workflow.id must be ${id}, as in the address`, { path: "workflow.id" });

/** What the shape refuses, as a problem like those of the graph. */
function toProblem({ code, message, details }: Fault) {
  const path = typeof details?.["path"] === "string" ? details["path"] : "";
  return { path: path.replace(/^workflow/, "").replaceAll(".", "/"), code, message, severity: "error" as const };
}
