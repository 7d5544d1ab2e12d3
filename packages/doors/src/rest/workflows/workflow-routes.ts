// The routes about workflows: saved, shown, replaced, deleted, checked. Drafts, versions, files and packages have files of their own.

import { readWorkflowPreview } from "@astraflow/protocol";
import {
  deleteWorkflow,
  presentWorkflow,
  replaceWorkflow,
  saveWorkflow,
  setPreview,
  validateWorkflow,
  type WorkflowServices,
  workflowEtag,
} from "@astraflow/services";
import { type RouteHandler, readJsonBody, readPageLimit, readRequest } from "../requests/rest-call.ts";
import { draftHandlers } from "./workflow-draft-routes.ts";
import { fileHandlers } from "./workflow-file-routes.ts";
import { workflowPackageHandlers } from "./workflow-package-routes.ts";
import { readRevisionCheck, workflowIdempotencyKeyOf, workflowIdOf, writtenReply } from "./workflow-request-readers.ts";
import { versionHandlers } from "./workflow-version-routes.ts";

type WorkflowRoutes =
  | "listWorkflows"
  | "validateWorkflow"
  | "saveWorkflow"
  | "getWorkflow"
  | "replaceWorkflow"
  | "deleteWorkflow"
  | "getWorkflowPreview"
  | "putWorkflowPreview";

export const workflowHandlers = (workflows: WorkflowServices) => ({
  ...workflowCrudHandlers(workflows),
  ...draftHandlers(workflows),
  ...versionHandlers(workflows),
  ...fileHandlers(workflows),
  ...workflowPackageHandlers(workflows),
});

function workflowCrudHandlers(workflows: WorkflowServices): Record<WorkflowRoutes, RouteHandler> {
  const { store, digest } = workflows;
  const previewBody = (preview: string | null) => (preview === null ? {} : { previewImage: preview });
  return {
    async listWorkflows(call) {
      const { cursor, search = "" } = call.query;
      const { items, ...page } = await store.list(call.identity, { limit: readPageLimit(call.query), cursor, search });
      return { body: { items: items.map(presentWorkflow), ...page } };
    },

    async validateWorkflow(call) {
      return { body: await validateWorkflow(workflows.catalogues, call.identity.tenant, readJsonBody(call)) };
    },

    async saveWorkflow(call) {
      const body = readJsonBody(call);
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "saveWorkflow", body });
      return writtenReply(await saveWorkflow(workflows, call, body, idempotencyKey));
    },

    async getWorkflow(call) {
      const { document, asOf } = await store.find(call.identity, workflowIdOf(call));
      return { body: { ...presentWorkflow(document), asOf }, headers: { etag: workflowEtag(document) } };
    },

    async replaceWorkflow(call) {
      const checkRevision = readRevisionCheck(call);
      const document = await replaceWorkflow(workflows, call, workflowIdOf(call), readJsonBody(call), checkRevision);
      return { body: { workflowId: document.id, revision: document.revision }, headers: { etag: workflowEtag(document) } };
    },

    async deleteWorkflow(call) {
      await deleteWorkflow(workflows, call, workflowIdOf(call), readRevisionCheck(call));
      return { body: "" };
    },

    async getWorkflowPreview(call) {
      const { document, asOf } = await store.find(call.identity, workflowIdOf(call));
      return { body: { ...previewBody(document.preview), asOf } };
    },

    async putWorkflowPreview(call) {
      const { previewImage: preview = null } = readRequest(call, readWorkflowPreview);
      await setPreview(workflows, call, workflowIdOf(call), preview);
      return { body: previewBody(preview) };
    },
  };
}
