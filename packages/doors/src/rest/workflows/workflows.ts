// The routes about workflows: kept, shown, replaced, deleted, checked. Drafts, versions, files and packages are in files of their own.

import { Fault, fault, findWorkflowFaults, readWorkflow, readWorkflowPreview, type Workflow } from "@astraflow/protocol";
import type { Catalogue } from "../../catalogue.ts";
import { type Call, type Handler, readBody, readLimit } from "../call.ts";
import { draftHandlers } from "./workflow-drafts.ts";
import { editsBetween } from "./workflow-edits.ts";
import { fileHandlers } from "./workflow-files.ts";
import {
  type AskWords,
  askOf,
  bareWorkflow,
  createHeads,
  type Head,
  type Heads,
  headLimits,
  isConflict,
  mayAll,
  newHead,
  nextHead,
  revisionBy,
  type WorkflowsOptions,
} from "./workflow-heads.ts";
import { uuidOf } from "./workflow-names.ts";
import { workflowPackageHandlers } from "./workflow-packages.ts";
import {
  allowUnknownIn,
  isError,
  judged,
  judgedProblems,
  named,
  problemsMax,
  problemsOf,
  refuseErrors,
  sizedWorkflow,
  workflowIn,
} from "./workflow-problems.ts";
import { readIfMatch } from "./workflow-readers.ts";
import { createVersions, versionHandlers } from "./workflow-versions.ts";
import { etagOf, refOf, repeatOf, viewWorkflow } from "./workflow-view.ts";

type WorkflowRoutes = "listWorkflows" | "validateWorkflow" | "getWorkflow" | "replaceWorkflow" | "deleteWorkflow";

export function workflowsHandlers(options: WorkflowsOptions) {
  const heads = createHeads(options);
  const versions = createVersions(options);
  return {
    ...keepingHandlers(options, heads),
    saveWorkflow: saveHandler(options, heads),
    ...previewHandlers(heads),
    ...draftHandlers(options, heads, versions),
    ...versionHandlers(options, heads, versions),
    ...fileHandlers(options, heads, versions),
    ...workflowPackageHandlers(options, heads),
  };
}

function keepingHandlers({ catalogues }: WorkflowsOptions, heads: Heads): Record<WorkflowRoutes, Handler> {
  return {
    async listWorkflows(call) {
      const { cursor, search = "" } = call.query;
      const { items, ...page } = await heads.list(call.identity, { limit: readLimit(call.query), cursor, search });
      return { body: { items: items.map(viewWorkflow), ...page } };
    },

    async validateWorkflow(call) {
      const body = readBody(call);
      const options = { allowUnknown: allowUnknownIn(body) };
      // One that is new has no id yet; saving gives it one.
      const sent = named(body, uuidOf("new"));
      const workflow = readWorkflow(sent);
      const judge = (catalogue: Catalogue) => ({
        problems:
          workflow instanceof Fault
            ? findWorkflowFaults(sent, problemsMax).map(problemIn)
            : problemsOf(workflow, catalogue, options),
        asOf: catalogue.asOf,
      });
      const { problems, asOf } = await judged(catalogues, call.identity.tenant, judge, (verdict) => verdict.problems);
      return { body: { isValid: !problems.some(isError), problems: problems.slice(0, problemsMax), asOf } };
    },

    async getWorkflow(call) {
      const { head, asOf } = await heads.find(call.identity, call.params["workflowId"] ?? "");
      return { body: { ...viewWorkflow(head), asOf }, headers: { etag: etagOf(head) } };
    },

    async replaceWorkflow(call) {
      const id = call.params["workflowId"] ?? "";
      const expect = readIfMatch(call);
      const body = readBody(call);
      const { head: found } = await heads.find(call.identity, id);
      expect(found);
      const workflow = sizedWorkflow(workflowIn(body, id));
      if (workflow.id !== id) throw otherId(id);
      const options = { allowUnknown: allowUnknownIn(body) };
      const judge = (catalogue: Catalogue) => problemsOf(workflow, catalogue, options);
      refuseErrors(await judgedProblems(catalogues, call.identity.tenant, judge));
      const { head } = await heads.change(call, id, {
        action: "workflow.update",
        ask: null,
        decide(now) {
          expect(now);
          return { head: replaced(now, call, heads.now(), workflow, null) };
        },
      });
      return { body: { workflowId: id, revision: head.revision }, headers: { etag: etagOf(head) } };
    },

    async deleteWorkflow(call) {
      const expect = readIfMatch(call);
      await heads.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.delete",
        ask: null,
        decide(now) {
          expect(now);
          return { head: { ...now, deletedAt: heads.now() } };
        },
      });
      return { body: "" };
    },
  };
}

/** Creates, replaces, or brings back what was deleted; whose it is stays. */
function saveHandler({ digest, environment, catalogues }: WorkflowsOptions, heads: Heads): Handler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const body = readBody(call);
    const ask = askOf(call, digest, { route: "saveWorkflow", body });
    const workflow = sizedWorkflow(workflowIn(body, uuidOf(`workflow ${tenant} ${user} ${ask?.word ?? environment.ids.next()}`)));
    const options = { allowUnknown: allowUnknownIn(body) };
    const problems = await judgedProblems(catalogues, tenant, (catalogue) => problemsOf(workflow, catalogue, options));
    for (let tries = 1; ; tries += 1) {
      const { head, rev } = await heads.look(tenant, workflow.id);
      if (head !== null && head.owner !== user && !mayAll(call.identity)) throw taken(workflow.id);
      const before = revisionBy(head, ask);
      if (before !== null) return refOf(workflow.id, before, true);
      refuseErrors(problems);
      const now = heads.now();
      const next = head === null ? newHead(call, now, workflow, ask) : replaced(head, call, now, workflow, ask);
      const action = head === null ? "workflow.create" : "workflow.update";
      try {
        const { repeated } = await heads.write(call, rev, { head: next }, { action, ask });
        return repeated
          ? repeatOf(workflow.id, (await heads.look(tenant, workflow.id)).head, ask)
          : refOf(workflow.id, next.revision, false);
      } catch (problem) {
        if (!isConflict(problem) || tries >= headLimits.triesMax) throw problem;
      }
    }
  };
}

function previewHandlers(heads: Heads): Record<"getWorkflowPreview" | "putWorkflowPreview", Handler> {
  const view = (preview: string | null) => (preview === null ? {} : { previewImage: preview });
  return {
    async getWorkflowPreview(call) {
      const { head, asOf } = await heads.find(call.identity, call.params["workflowId"] ?? "");
      return { body: { ...view(head.preview), asOf } };
    },
    async putWorkflowPreview(call) {
      const request = readWorkflowPreview(readBody(call));
      if (request instanceof Fault) throw request;
      const preview = request.previewImage ?? null;
      await heads.change(call, call.params["workflowId"] ?? "", {
        action: "workflow.preview",
        ask: null,
        decide: (now) => ({ head: { ...now, preview } }),
      });
      return { body: view(preview) };
    },
  };
}

/** The same again is no new revision: an editor that saves on leaving must not outdate the ETags of others. */
function replaced(head: Head, call: Call, now: number, workflow: Workflow, ask: AskWords | null): Head {
  const edits = editsBetween(head.workflow, bareWorkflow(workflow));
  const isSamePicture = (workflow.previewImage ?? head.preview) === head.preview;
  const isSame = edits?.length === 0 && isSamePicture && head.deletedAt === null && ask === null;
  return isSame ? head : nextHead(head, call, now, { workflow, edits, ask });
}

const taken = (id: string): Fault => fault("E.AUTH.FORBIDDEN", `workflow ${id} is another's; save yours under an id of its own`);
const otherId = (id: string): Fault =>
  fault("E.REQUEST.INVALID", `workflow.id must be ${id}, as in the address`, { path: "workflow.id" });

/** What the shape refuses, as a problem like those of the graph. */
function problemIn({ code, message, details }: Fault) {
  const path = typeof details?.["path"] === "string" ? details["path"] : "";
  return { path: path.replace(/^workflow/, "").replaceAll(".", "/"), code, message, severity: "error" as const };
}
