// The routes that export a workflow as one file, and import such a file.

import { Fault, fault, readWorkflowFile } from "@astraflow/protocol";
import { exportWorkflow, importWorkflow, type WorkflowServices } from "@astraflow/services";
import { type RouteHandler, readJsonBody } from "../requests/rest-call.ts";
import { workflowIdempotencyKeyOf, workflowIdOf, writtenReply } from "./workflow-request-readers.ts";

export function fileHandlers(workflows: WorkflowServices): Record<"exportWorkflow" | "importWorkflow", RouteHandler> {
  return {
    async exportWorkflow(call) {
      const id = workflowIdOf(call);
      const body = await exportWorkflow(workflows, call, id);
      return { body, headers: { "content-disposition": `attachment; filename="workflow-${id}.json"` } };
    },

    async importWorkflow(call) {
      const { ids = "keep" } = call.query;
      if (ids !== "keep" && ids !== "renew")
        throw fault("E.REQUEST.INVALID", "query.ids must be keep or renew", { path: "query.ids" });
      const body = readJsonBody(call);
      const file = readWorkflowFile(body);
      if (file instanceof Fault) throw file;
      const idempotencyKey = workflowIdempotencyKeyOf(call, workflows.digest, { route: "importWorkflow", ids, body });
      return writtenReply(await importWorkflow(workflows, call, file, ids, idempotencyKey));
    },
  };
}
