// The routes about drafts: read with their problems, edited, compared, and rolled back to a version.

import { readDraftEditRequest, readRollbackRequest } from "@astraflow/protocol";
import {
  diffDrafts,
  draftProblems,
  editDraft,
  presentDraft,
  presentDraftChange,
  rollbackWorkflow,
  type WorkflowServices,
  workflowEtag,
} from "@astraflow/services";
import { type RouteHandler, readRequest } from "../requests/rest-call.ts";
import { workflowIdempotencyKeyOf, workflowIdOf, writtenReply } from "./workflow-request-readers.ts";

type DraftRoutes = "getDraft" | "editDraft" | "diffWorkflow" | "rollbackWorkflow";

export function draftHandlers(workflows: WorkflowServices): Record<DraftRoutes, RouteHandler> {
  return {
    async getDraft(call) {
      const { document, asOf } = await workflows.store.find(call.identity, workflowIdOf(call));
      const problems = await draftProblems(workflows, call.identity.tenant, document);
      return { body: { ...presentDraft(document), problems, asOf }, headers: { etag: workflowEtag(document) } };
    },

    async editDraft(call) {
      const request = readRequest(call, readDraftEditRequest);
      const { document, between } = await editDraft(workflows, call, workflowIdOf(call), request);
      return {
        body: {
          workflowId: document.id,
          revision: document.revision,
          between: between.map(presentDraftChange),
          problems: await draftProblems(workflows, call.identity.tenant, document),
        },
        headers: { etag: workflowEtag(document) },
      };
    },

    async diffWorkflow(call) {
      const { from, to } = call.query;
      return { body: await diffDrafts(workflows, call, workflowIdOf(call), { from, to }) };
    },

    async rollbackWorkflow(call) {
      const id = workflowIdOf(call);
      const request = readRequest(call, readRollbackRequest);
      const idempotencyKey = workflowIdempotencyKeyOf(call, workflows.digest, { route: "rollbackWorkflow", id, request });
      return writtenReply(await rollbackWorkflow(workflows, call, id, request.version, idempotencyKey));
    },
  };
}
