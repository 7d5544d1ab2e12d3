// The routes about drafts: read with their problems, saved as edits, compared, and set back to a version.

import { diffWorkflows } from "@astraflow/graph";
import { Fault, fault, readDraftEditRequest, readRollbackRequest, type Workflow } from "@astraflow/protocol";
import { findProblems, findProblemsIn } from "@astraflow/services";
import { type RouteHandler, readJsonBody } from "../requests/rest-call.ts";
import { editsBetween, parseEdits, rebaseEdits } from "./draft-edits.ts";
import {
  type DraftRevision,
  type FoundWorkflow,
  nextWorkflowRevision,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowStore,
  type WorkflowStoreOptions,
  workflowIdempotencyKeyOf,
} from "./workflow-store.ts";
import type { WorkflowVersionStore } from "./workflow-version-routes.ts";
import { presentDraft, presentDraftChange, repeatedReply, workflowEtag, workflowRefReply } from "./workflow-view.ts";

type DraftRoutes = "getDraft" | "editDraft" | "diffWorkflow" | "rollbackWorkflow";

export function draftHandlers(
  options: WorkflowStoreOptions,
  store: WorkflowStore,
  versions: WorkflowVersionStore,
): Record<DraftRoutes, RouteHandler> {
  const { digest, catalogues } = options;

  /** Told and never refused: a draft may be unfinished. */
  const draftProblems = (tenant: string, { workflow }: WorkflowDocument) =>
    findProblems(catalogues, tenant, (catalogue) => findProblemsIn(workflow, catalogue));

  /** A side of a comparison: the draft, a version, or without a word what is usual there. */
  const readComparedSide = async (call: Parameters<RouteHandler>[0], { head: document }: FoundWorkflow, name: "from" | "to") => {
    const versionName = call.query[name] ?? (name === "to" || document.version === 0 ? "draft" : String(document.version));
    if (versionName === "draft") return { word: versionName, workflow: document.workflow };
    if (!/^[1-9][0-9]{0,8}$/.test(versionName))
      throw fault("E.REQUEST.INVALID", `query.${name} must be a version's number or draft`, { path: `query.${name}` });
    const { version } = await versions.get(call.identity.tenant, document.id, Number(versionName));
    return { word: versionName, workflow: version.workflow };
  };

  return {
    async getDraft(call) {
      const { head: document, asOf } = await store.find(call.identity, call.params["workflowId"] ?? "");
      const problems = await draftProblems(call.identity.tenant, document);
      return { body: { ...presentDraft(document), problems, asOf }, headers: { etag: workflowEtag(document) } };
    },

    async editDraft(call) {
      const request = readDraftEditRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const edits = parseEdits(request.edits);
      let between: readonly DraftRevision[] = [];
      const { head: document } = await store.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.update",
        ask: null,
        decide(now) {
          const next = rebaseEdits(now, request.base, edits);
          between = next.between;
          const { workflow } = next;
          return {
            head: nextWorkflowRevision(now, call, store.now(), { workflow, edits, ask: null }),
            data: { edits: edits.length },
          };
        },
      });
      return {
        body: {
          workflowId: document.id,
          revision: document.revision,
          between: between.map(presentDraftChange),
          problems: await draftProblems(call.identity.tenant, document),
        },
        headers: { etag: workflowEtag(document) },
      };
    },

    async diffWorkflow(call) {
      const found = await store.find(call.identity, call.params["workflowId"] ?? "");
      const [from, to] = await Promise.all([readComparedSide(call, found, "from"), readComparedSide(call, found, "to")]);
      const { edits, summary } = diffWorkflows(from.workflow, to.workflow);
      return { body: { workflowId: found.head.id, from: from.word, to: to.word, edits, summary, asOf: found.asOf } };
    },

    async rollbackWorkflow(call) {
      const id = call.params["workflowId"] ?? "";
      const request = readRollbackRequest(readJsonBody(call));
      if (request instanceof Fault) throw request;
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "rollbackWorkflow", id, request });
      const found = await store.find(call.identity, id);
      const before = revisionMadeBy(found.head, idempotencyKey);
      if (before !== null) return workflowRefReply(id, before, true);

      const { version } = await versions.get(call.identity.tenant, id, request.version);
      const { head: document, repeated } = await store.change(call, id, {
        action: "workflow.rollback",
        ask: idempotencyKey,
        decide: (now) => ({ head: rolledBack(now, version.workflow, request.version), data: { version: request.version } }),
      });
      return repeated
        ? repeatedReply(id, (await store.find(call.identity, id)).head, idempotencyKey)
        : workflowRefReply(id, document.revision, false);

      function rolledBack(now: WorkflowDocument, workflow: Workflow, number: number): WorkflowDocument {
        const next = nextWorkflowRevision(now, call, store.now(), {
          workflow,
          edits: editsBetween(now.workflow, workflow),
          ask: idempotencyKey,
        });
        return number === next.version ? { ...next, publishedRevision: next.revision } : next;
      }
    },
  };
}
