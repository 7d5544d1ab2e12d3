// The routes about drafts: read with their problems, saved as edits, compared, and set back to a version.

import { diffWorkflows } from "@astraflow/graph";
import { Fault, fault, readDraftEditRequest, readRollbackRequest, type Workflow } from "@astraflow/protocol";
import { type Handler, readBody } from "../call.ts";
import { editsBetween, readEditsIn, rebased } from "./workflow-edits.ts";
import {
  askOf,
  type Change,
  type Found,
  type Head,
  type Heads,
  nextHead,
  revisionBy,
  type WorkflowsOptions,
} from "./workflow-heads.ts";
import { judgedProblems, problemsOf } from "./workflow-problems.ts";
import type { Versions } from "./workflow-versions.ts";
import { etagOf, refOf, repeatOf, viewChange, viewDraft } from "./workflow-view.ts";

type DraftRoutes = "getDraft" | "editDraft" | "diffWorkflow" | "rollbackWorkflow";

export function draftHandlers(options: WorkflowsOptions, heads: Heads, versions: Versions): Record<DraftRoutes, Handler> {
  const { digest, catalogues } = options;

  /** Told and never refused: a draft may be unfinished. */
  const problemsIn = (tenant: string, { workflow }: Head) =>
    judgedProblems(catalogues, tenant, (catalogue) => problemsOf(workflow, catalogue));

  /** A side of a comparison: the draft, a version, or without a word what is usual there. */
  const sideOf = async (call: Parameters<Handler>[0], { head }: Found, name: "from" | "to") => {
    const word = call.query[name] ?? (name === "to" || head.version === 0 ? "draft" : String(head.version));
    if (word === "draft") return { word, workflow: head.workflow };
    if (!/^[1-9][0-9]{0,8}$/.test(word))
      throw fault("E.REQUEST.INVALID", `query.${name} must be a version's number or draft`, { path: `query.${name}` });
    const { version } = await versions.get(call.identity.tenant, head.id, Number(word));
    return { word, workflow: version.workflow };
  };

  return {
    async getDraft(call) {
      const { head, asOf } = await heads.find(call.identity, call.params["workflowId"] ?? "");
      const problems = await problemsIn(call.identity.tenant, head);
      return { body: { ...viewDraft(head), problems, asOf }, headers: { etag: etagOf(head) } };
    },

    async editDraft(call) {
      const request = readDraftEditRequest(readBody(call));
      if (request instanceof Fault) throw request;
      const edits = readEditsIn(request.edits);
      let between: readonly Change[] = [];
      const { head } = await heads.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.update",
        ask: null,
        decide(now) {
          const next = rebased(now, request.base, edits);
          between = next.between;
          const { workflow } = next;
          return { head: nextHead(now, call, heads.now(), { workflow, edits, ask: null }), data: { edits: edits.length } };
        },
      });
      return {
        body: {
          workflowId: head.id,
          revision: head.revision,
          between: between.map(viewChange),
          problems: await problemsIn(call.identity.tenant, head),
        },
        headers: { etag: etagOf(head) },
      };
    },

    async diffWorkflow(call) {
      const found = await heads.find(call.identity, call.params["workflowId"] ?? "");
      const [from, to] = await Promise.all([sideOf(call, found, "from"), sideOf(call, found, "to")]);
      const { edits, summary } = diffWorkflows(from.workflow, to.workflow);
      return { body: { workflowId: found.head.id, from: from.word, to: to.word, edits, summary, asOf: found.asOf } };
    },

    async rollbackWorkflow(call) {
      const id = call.params["workflowId"] ?? "";
      const request = readRollbackRequest(readBody(call));
      if (request instanceof Fault) throw request;
      const ask = askOf(call, digest, { route: "rollbackWorkflow", id, request });
      const found = await heads.find(call.identity, id);
      const before = revisionBy(found.head, ask);
      if (before !== null) return refOf(id, before, true);

      const { version } = await versions.get(call.identity.tenant, id, request.version);
      const { head, repeated } = await heads.change(call, id, {
        action: "workflow.rollback",
        ask,
        decide: (now) => ({ head: rolledBack(now, version.workflow, request.version), data: { version: request.version } }),
      });
      return repeated ? repeatOf(id, (await heads.find(call.identity, id)).head, ask) : refOf(id, head.revision, false);

      function rolledBack(now: Head, workflow: Workflow, number: number): Head {
        const next = nextHead(now, call, heads.now(), { workflow, edits: editsBetween(now.workflow, workflow), ask });
        return number === next.version ? { ...next, publishedRevision: next.revision } : next;
      }
    },
  };
}
