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
import { type Call, type Handler, readBody } from "../call.ts";
import { askOf, bareWorkflow, type Heads, isConflict, newHead, revisionBy, type WorkflowsOptions } from "./workflow-heads.ts";
import { uuidOf } from "./workflow-names.ts";
import { isError, judgedProblems, refuseErrors, workflowIn } from "./workflow-problems.ts";
import { type Version, type Versions, versionPut } from "./workflow-versions.ts";
import { instantOf, refOf, viewWorkflow } from "./workflow-view.ts";

type FileRoutes = "exportWorkflow" | "importWorkflow";
type ReadFile = Exclude<ReturnType<typeof readWorkflowFile>, Fault>;

/** An export leaves room for the words around its workflows, so that an import takes it. */
const fileCharsMax = limits.requestBytesMax - 64 * 1024;
const versionsPerLook = 25;

export function fileHandlers(options: WorkflowsOptions, heads: Heads, versions: Versions): Record<FileRoutes, Handler> {
  const { digest, environment, catalogues } = options;

  /** The newest versions whose texts fit, oldest first. */
  const versionsFor = async (tenant: string, id: string, charsUsed: number): Promise<Version[]> => {
    const kept: Version[] = [];
    let cursor: string | undefined;
    let chars = charsUsed;
    for (;;) {
      const page = await versions.list(tenant, id, { limit: versionsPerLook, cursor });
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
      const { head, asOf } = await heads.find(call.identity, call.params["workflowId"] ?? "");
      const {
        revision: _revision,
        latestVersion: _latest,
        createdAt: _created,
        updatedAt: _updated,
        ...workflow
      } = viewWorkflow(head);
      const kept = await versionsFor(call.identity.tenant, head.id, Buffer.byteLength(JSON.stringify(workflow)));
      const { previewImage, ...bare } = workflow;
      const body = {
        format: workflowFileFormat,
        workflow: bare,
        ...(previewImage !== undefined && { previewImage }),
        versions: kept.map(({ version, at, by, note, workflow: definition }) => ({
          version,
          publishedAt: instantOf(at),
          publishedBy: by,
          ...(note !== undefined && { note }),
          workflow: definition,
        })),
        ...(head.version > kept.length && { omitted: head.version - kept.length }),
        asOf,
      };
      return { body, headers: { "content-disposition": `attachment; filename="workflow-${head.id}.json"` } };
    },

    async importWorkflow(call) {
      const { ids = "keep" } = call.query;
      if (ids !== "keep" && ids !== "renew")
        throw fault("E.REQUEST.INVALID", "query.ids must be keep or renew", { path: "query.ids" });
      const body = readBody(call);
      const file = readWorkflowFile(body);
      if (file instanceof Fault) throw file;
      const ask = askOf(call, digest, { route: "importWorkflow", ids, body });
      const { tenant, user } = call.identity;
      const renewed = ids === "renew" ? uuidOf(`import ${tenant} ${user} ${ask?.word ?? environment.ids.next()}`) : null;
      const taken = takeIn(call, file, renewed, heads.now(), digest);
      const head = { ...newHead(call, heads.now(), taken.workflow, ask), ...taken.numbers, preview: file.previewImage ?? null };
      // Of what was published elsewhere only packages are looked for: versions and types of the past may be gone.
      const allow = { allowUnknown: file.allowUnknown ?? false };
      const problems = await judgedProblems(catalogues, tenant, (catalogue) =>
        taken.versions.flatMap(({ workflow }) => checkPackages(workflow, catalogue, allow)),
      );
      const before = problems.some(isError) ? revisionBy((await heads.look(tenant, head.id)).head, ask) : null;
      if (before !== null) return refOf(head.id, before, true);
      refuseErrors(problems);
      const step = {
        head,
        puts: taken.versions.map((version) => versionPut(version, null)),
        data: { versions: taken.versions.length },
      };
      const { repeated } = await heads.write(call, 0, step, { action: "workflow.import", ask }).catch((problem: unknown) => {
        throw isConflict(problem) ? idTaken(head.id) : problem;
      });
      return refOf(head.id, head.revision, repeated);
    },
  };
}

const idTaken = (id: string): Fault =>
  fault("E.CONFLICT", `workflow ${id} is there already, or was and is deleted; import it with ids=renew`, { workflowId: id });

/** The file's workflows checked one by one. What was published must be able to run; the draft may be unfinished. */
function takeIn(call: Call, file: ReadFile, renewed: string | null, now: number, digest: (text: string) => string) {
  const read = (value: JsonValue): Workflow => bareWorkflow(workflowIn(value, renewed ?? ""));
  const under = (workflow: Workflow): Workflow => (renewed === null ? workflow : movedTo(workflow, renewed));
  const draft = read(file.workflow);
  const workflow = under(draft);
  const versions: Version[] = [];
  for (const [index, one] of file.versions.entries()) {
    const published = read(one.workflow);
    if (published.id !== draft.id) throw wrongAt(index, "workflow.id", `must be ${draft.id}, as that of the draft`);
    const definition = under(published);
    if (one.version <= (versions.at(-1)?.version ?? 0)) throw wrongAt(index, "version", "must be higher than the one before");
    refuseErrors(checkWorkflow(definition));
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
const movedTo = (workflow: Workflow, id: string): Workflow => ({
  ...workflow,
  id,
  metadata: { ...workflow.metadata, originId: workflow.metadata.originId ?? workflow.id },
});

const wrongAt = (index: number, field: string, what: string): Fault =>
  fault("E.REQUEST.INVALID", `body.versions.${index}.${field} ${what}`, { path: `body.versions.${index}.${field}` });
