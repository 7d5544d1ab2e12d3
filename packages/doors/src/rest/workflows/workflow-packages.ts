// The routes about workflows published as packages: a package has an owner and versions, each version a workflow that others may clone.

import { checkPackages } from "@astraflow/graph";
import { Fault, fault, readWorkflowCloneRequest, readWorkflowPublishRequest } from "@astraflow/protocol";
import type { CallerIdentity } from "../../identity.ts";
import { type Handler, readBody, readLimit } from "../call.ts";
import {
  type AskWords,
  askOf,
  type Head,
  type Heads,
  isConflict,
  newHead,
  revisionBy,
  type WorkflowsOptions,
} from "./workflow-heads.ts";
import { uuidOf } from "./workflow-names.ts";
import {
  createPacks,
  hasVersion,
  isOwn,
  maySee,
  missingPack,
  type Pack,
  type Packs,
  type PackVersion,
  type PackVersionBody,
  packLimits,
  packOf,
  packPut,
  packVersionCollection,
} from "./workflow-packs.ts";
import { isError, judgedProblems, problemsOf, refuseErrors } from "./workflow-problems.ts";
import { readOptionalBody } from "./workflow-readers.ts";
import { instantOf, refOf } from "./workflow-view.ts";

type PackRoutes =
  | "publishWorkflow"
  | "listWorkflowPackages"
  | "getWorkflowPackage"
  | "deleteWorkflowPackage"
  | "listWorkflowPackageVersions"
  | "cloneWorkflowPackage";

export function workflowPackageHandlers(options: WorkflowsOptions, heads: Heads): Record<PackRoutes, Handler> {
  const packs = createPacks(options);
  return {
    publishWorkflow: publishHandler(options, heads, packs),
    cloneWorkflowPackage: cloneHandler(options, heads, packs),

    async listWorkflowPackages(call) {
      const { identity, query } = call;
      const { items, ...page } = await packs.list(identity, query, readLimit(query));
      return { body: { items: items.map(viewPack), ...page } };
    },

    async getWorkflowPackage(call) {
      const { pack, asOf } = await packs.find(call.identity, call.params["packageId"] ?? "");
      return { body: { ...viewPack(pack), versions: pack.versions.map(viewPackVersion), asOf } };
    },

    async listWorkflowPackageVersions(call) {
      const { pack, asOf } = await packs.find(call.identity, call.params["packageId"] ?? "");
      return { body: { items: pack.versions.map(viewPackVersion), asOf } };
    },

    async deleteWorkflowPackage(call) {
      const id = call.params["packageId"] ?? "";
      for (let tries = 1; ; tries += 1) {
        const { pack, rev } = await packs.find(call.identity, id);
        if (!isOwn(call.identity, pack)) throw notYours(pack);
        try {
          await packs.write(call, [packPut({ ...pack, deletedAt: heads.now() }, rev)], "workflow-package.delete", pack.id, null);
          return { body: "" };
        } catch (problem) {
          if (!isConflict(problem) || tries >= packLimits.triesMax) throw problem;
        }
      }
    },
  };
}

function publishHandler({ digest, catalogues }: WorkflowsOptions, heads: Heads, packs: Packs): Handler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const workflowId = call.params["workflowId"] ?? "";
    const request = readWorkflowPublishRequest(readBody(call));
    if (request instanceof Fault) throw request;
    const ask = askOf(call, digest, { route: "publishWorkflow", workflowId, request });
    const { head } = await heads.find(call.identity, workflowId);
    const packageId = request.packageId ?? uuidOf(`workflow-package ${tenant} ${workflowId}`);
    const { version } = request;
    const versionId = uuidOf(`workflow-package ${tenant} ${packageId} ${version}`);
    const published = (repeated: boolean) => ({
      body: { packageId, versionId, version },
      headers: repeated ? { "idempotent-replayed": "true" } : ({} as Record<string, string>),
    });
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await judgedProblems(catalogues, tenant, (catalogue) => problemsOf(head.workflow, catalogue, allow));
    if (problems.some(isError) && isMadeBy((await packs.look(tenant, packageId)).pack, version, ask)) return published(true);
    refuseErrors(problems);
    for (let tries = 1; ; tries += 1) {
      const { pack: before, rev } = await packs.look(tenant, packageId);
      refuseStrangers(call.identity, before, request.packageId);
      const one: PackVersion = {
        id: versionId,
        version,
        at: heads.now(),
        by: user,
        ...(request.changelog !== undefined && { changelog: request.changelog }),
        ...(ask !== null && { ask: ask.word }),
      };
      const pack = packOf(before, { id: packageId, request, head, version: one, identity: call.identity });
      const source = { workflowId, revision: head.revision };
      const body: PackVersionBody = { ...one, workflow: head.workflow, source };
      const versionPut = {
        collection: packVersionCollection,
        name: `${packageId}/${version}`,
        rev: 0,
        body: JSON.stringify(body),
      };
      try {
        const repeated = await packs.write(call, [packPut(pack, rev), versionPut], "workflow-package.publish", packageId, ask);
        return published(repeated);
      } catch (problem) {
        if (!isConflict(problem)) throw problem;
        // The engine names the first that is in the way; where the package itself has moved on, the version may be there all the same.
        const isThere = problem.details?.["collection"] === packVersionCollection || hasVersion(before, version);
        if (isThere) throw versionExists(packageId, version);
        if (tries >= packLimits.triesMax) throw problem;
      }
    }
  };
}

/** A package that is named must be there, and whoever publishes into one must own it. */
function refuseStrangers(identity: CallerIdentity, pack: Pack | null, named: string | undefined): void {
  if (pack === null) {
    if (named !== undefined) throw missingPack(named);
  } else if (!isOwn(identity, pack)) throw maySee(identity, pack) ? notYours(pack) : missingPack(pack.id);
}

/** What was published under this key when the catalogue, or the draft, was another. */
const isMadeBy = (pack: Pack | null, version: string, ask: AskWords | null): boolean =>
  ask !== null && (pack?.versions.some((one) => one.version === version && one.ask === ask.word) ?? false);

function cloneHandler({ digest, environment, catalogues }: WorkflowsOptions, heads: Heads, packs: Packs): Handler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const packageId = call.params["packageId"] ?? "";
    const request = readWorkflowCloneRequest(readOptionalBody(call));
    if (request instanceof Fault) throw request;
    const ask = askOf(call, digest, { route: "cloneWorkflowPackage", packageId, request });
    const { pack } = await packs.find(call.identity, packageId);
    const { version, workflow } = await packs.version(tenant, pack.id, chosen(pack, request));
    const id = uuidOf(`clone ${tenant} ${user} ${ask?.word ?? environment.ids.next()}`);
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await judgedProblems(catalogues, tenant, (catalogue) => checkPackages(workflow, catalogue, allow));
    const before = problems.some(isError) ? revisionBy((await heads.look(tenant, id)).head, ask) : null;
    if (before !== null) return refOf(id, before, true);
    refuseErrors(problems);
    const name = request.workflowName ?? workflow.metadata.name;
    const metadata = { ...workflow.metadata, name, originId: workflow.metadata.originId ?? workflow.id };
    const head: Head = {
      ...newHead(call, heads.now(), { ...workflow, id, metadata }, ask),
      preview: pack.preview,
    };
    const step = { head, data: { package: pack.id, version } };
    const { repeated } = await heads.write(call, 0, step, { action: "workflow.clone", ask });
    return refOf(id, head.revision, repeated);
  };
}

/** The version that is meant: by its id, by its name, else the newest. */
function chosen(pack: Pack, { versionId, version }: { versionId?: string; version?: string }): string {
  const found = pack.versions.find(
    (one) => (versionId === undefined || one.id === versionId) && (version === undefined || one.version === version),
  );
  if (found !== undefined) return found.version;
  throw fault("E.NOT_FOUND", `workflow package ${pack.id} has no version ${(version ?? versionId ?? "").slice(0, 100)}`);
}

const versionExists = (pack: string, version: string): Fault =>
  fault("E.VERSION.EXISTS", `workflow package ${pack} has version ${version} already; publish under another`, {
    packageId: pack,
    version,
  });
const notYours = (pack: Pack): Fault =>
  fault("E.AUTH.FORBIDDEN", `workflow package ${pack.id} is another's; only its owner may change it`);

const viewPack = (pack: Pack) => ({
  id: pack.id,
  slug: pack.slug,
  displayName: pack.displayName,
  visibility: pack.visibility,
  ...(pack.summary !== undefined && { summary: pack.summary }),
  ...(pack.tags !== undefined && { tags: pack.tags }),
  ownerId: pack.owner,
  ownerName: pack.ownerName,
  updatedAt: instantOf(pack.updatedAt),
  ...(pack.versions[0] !== undefined && { latestVersion: pack.versions[0].version }),
  ...(pack.preview !== null && { previewImage: pack.preview }),
});

const viewPackVersion = (one: PackVersion) => ({
  id: one.id,
  version: one.version,
  publishedAt: instantOf(one.at),
  publisherId: one.by,
  ...(one.changelog !== undefined && { changelog: one.changelog }),
});
