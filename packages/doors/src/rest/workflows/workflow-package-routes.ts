// The routes about workflows published as packages: a package has an owner and versions, each version a workflow that others may clone.

import { checkPackages } from "@astraflow/graph";
import { Fault, fault, readWorkflowCloneRequest, readWorkflowPublishRequest } from "@astraflow/protocol";
import { type CallerIdentity, findProblems, findProblemsIn, isError, throwOnErrors, uuidFromText } from "@astraflow/services";
import { type RouteHandler, readJsonBody, readPageLimit } from "../requests/rest-call.ts";
import {
  canSeePackage,
  createWorkflowPackageStore,
  hasVersion,
  ownsPackage,
  packageNotFound,
  packagePut,
  packageWithVersion,
  type WorkflowPackageDocument,
  type WorkflowPackageStore,
  type WorkflowPackageVersionDocument,
  type WorkflowPackageVersionEntry,
  workflowPackageLimits,
  workflowPackageVersionCollection,
} from "./workflow-package-store.ts";
import { readOptionalBody } from "./workflow-request-readers.ts";
import {
  isConflict,
  newWorkflowDocument,
  revisionMadeBy,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WorkflowStoreOptions,
  workflowIdempotencyKeyOf,
} from "./workflow-store.ts";
import { isoTime, workflowRefReply } from "./workflow-view.ts";

type WorkflowPackageRoutes =
  | "publishWorkflow"
  | "listWorkflowPackages"
  | "getWorkflowPackage"
  | "deleteWorkflowPackage"
  | "listWorkflowPackageVersions"
  | "cloneWorkflowPackage";

export function workflowPackageHandlers(
  options: WorkflowStoreOptions,
  workflowStore: WorkflowStore,
): Record<WorkflowPackageRoutes, RouteHandler> {
  const packageStore = createWorkflowPackageStore(options);
  return {
    publishWorkflow: publishHandler(options, workflowStore, packageStore),
    cloneWorkflowPackage: cloneHandler(options, workflowStore, packageStore),

    async listWorkflowPackages(call) {
      const { identity, query } = call;
      const { items, ...page } = await packageStore.list(identity, query, readPageLimit(query));
      return { body: { items: items.map(presentWorkflowPackage), ...page } };
    },

    async getWorkflowPackage(call) {
      const { pack, asOf } = await packageStore.find(call.identity, call.params["packageId"] ?? "");
      return { body: { ...presentWorkflowPackage(pack), versions: pack.versions.map(presentPackageVersion), asOf } };
    },

    async listWorkflowPackageVersions(call) {
      const { pack, asOf } = await packageStore.find(call.identity, call.params["packageId"] ?? "");
      return { body: { items: pack.versions.map(presentPackageVersion), asOf } };
    },

    async deleteWorkflowPackage(call) {
      const id = call.params["packageId"] ?? "";
      for (let attempts = 1; ; attempts += 1) {
        const { pack, rev } = await packageStore.find(call.identity, id);
        if (!ownsPackage(call.identity, pack)) throw notOwnerFault(pack);
        try {
          await packageStore.write(
            call,
            [packagePut({ ...pack, deletedAt: workflowStore.now() }, rev)],
            "workflow-package.delete",
            pack.id,
            null,
          );
          return { body: "" };
        } catch (problem) {
          if (!isConflict(problem) || attempts >= workflowPackageLimits.attemptsMax) throw problem;
        }
      }
    },
  };
}

function publishHandler(
  { digest, catalogues }: WorkflowStoreOptions,
  workflowStore: WorkflowStore,
  packageStore: WorkflowPackageStore,
): RouteHandler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const workflowId = call.params["workflowId"] ?? "";
    const request = readWorkflowPublishRequest(readJsonBody(call));
    if (request instanceof Fault) throw request;
    const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishWorkflow", workflowId, request });
    const { head: document } = await workflowStore.find(call.identity, workflowId);
    const packageId = request.packageId ?? uuidFromText(`workflow-package ${tenant} ${workflowId}`);
    const { version } = request;
    const versionId = uuidFromText(`workflow-package ${tenant} ${packageId} ${version}`);
    const published = (repeated: boolean) => ({
      body: { packageId, versionId, version },
      headers: repeated ? { "idempotent-replayed": "true" } : ({} as Record<string, string>),
    });
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await findProblems(catalogues, tenant, (catalogue) => findProblemsIn(document.workflow, catalogue, allow));
    if (problems.some(isError) && wasPublishedBy((await packageStore.look(tenant, packageId)).pack, version, idempotencyKey))
      return published(true);
    throwOnErrors(problems);
    for (let attempts = 1; ; attempts += 1) {
      const { pack: before, rev } = await packageStore.look(tenant, packageId);
      checkPublishAccess(call.identity, before, request.packageId);
      const one: WorkflowPackageVersionEntry = {
        id: versionId,
        version,
        at: workflowStore.now(),
        by: user,
        ...(request.changelog !== undefined && { changelog: request.changelog }),
        ...(idempotencyKey !== null && { ask: idempotencyKey.searchTerm }),
      };
      const pack = packageWithVersion(before, { id: packageId, request, head: document, version: one, identity: call.identity });
      const source = { workflowId, revision: document.revision };
      const body: WorkflowPackageVersionDocument = { ...one, workflow: document.workflow, source };
      const versionPut = {
        collection: workflowPackageVersionCollection,
        name: `${packageId}/${version}`,
        rev: 0,
        body: JSON.stringify(body),
      };
      try {
        const repeated = await packageStore.write(
          call,
          [packagePut(pack, rev), versionPut],
          "workflow-package.publish",
          packageId,
          idempotencyKey,
        );
        return published(repeated);
      } catch (problem) {
        if (!isConflict(problem)) throw problem;
        // The engine names the first that is in the way; where the package itself has moved on, the version may be there all the same.
        const isThere = problem.details?.["collection"] === workflowPackageVersionCollection || hasVersion(before, version);
        if (isThere) throw versionExists(packageId, version);
        if (attempts >= workflowPackageLimits.attemptsMax) throw problem;
      }
    }
  };
}

/** A package that is named must be there, and whoever publishes into one must own it. */
function checkPublishAccess(identity: CallerIdentity, pack: WorkflowPackageDocument | null, named: string | undefined): void {
  if (pack === null) {
    if (named !== undefined) throw packageNotFound(named);
  } else if (!ownsPackage(identity, pack)) throw canSeePackage(identity, pack) ? notOwnerFault(pack) : packageNotFound(pack.id);
}

/** What was published under this key when the catalogue, or the draft, was another. */
const wasPublishedBy = (
  pack: WorkflowPackageDocument | null,
  version: string,
  idempotencyKey: WorkflowIdempotencyKey | null,
): boolean =>
  idempotencyKey !== null &&
  (pack?.versions.some((one) => one.version === version && one.ask === idempotencyKey.searchTerm) ?? false);

function cloneHandler(
  { digest, environment, catalogues }: WorkflowStoreOptions,
  workflowStore: WorkflowStore,
  packageStore: WorkflowPackageStore,
): RouteHandler {
  return async (call) => {
    const { tenant, user } = call.identity;
    const packageId = call.params["packageId"] ?? "";
    const request = readWorkflowCloneRequest(readOptionalBody(call));
    if (request instanceof Fault) throw request;
    const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "cloneWorkflowPackage", packageId, request });
    const { pack } = await packageStore.find(call.identity, packageId);
    const { version, workflow } = await packageStore.readVersion(tenant, pack.id, chooseVersion(pack, request));
    const id = uuidFromText(`clone ${tenant} ${user} ${idempotencyKey?.searchTerm ?? environment.ids.next()}`);
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await findProblems(catalogues, tenant, (catalogue) => checkPackages(workflow, catalogue, allow));
    const before = problems.some(isError) ? revisionMadeBy((await workflowStore.look(tenant, id)).head, idempotencyKey) : null;
    if (before !== null) return workflowRefReply(id, before, true);
    throwOnErrors(problems);
    const name = request.workflowName ?? workflow.metadata.name;
    const metadata = { ...workflow.metadata, name, originId: workflow.metadata.originId ?? workflow.id };
    const document: WorkflowDocument = {
      ...newWorkflowDocument(call, workflowStore.now(), { ...workflow, id, metadata }, idempotencyKey),
      preview: pack.preview,
    };
    const step = { head: document, data: { package: pack.id, version } };
    const { repeated } = await workflowStore.write(call, 0, step, { action: "workflow.clone", ask: idempotencyKey });
    return workflowRefReply(id, document.revision, repeated);
  };
}

/** The version that is meant: by its id, by its name, else the newest. */
function chooseVersion(pack: WorkflowPackageDocument, { versionId, version }: { versionId?: string; version?: string }): string {
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
const notOwnerFault = (pack: WorkflowPackageDocument): Fault =>
  fault("E.AUTH.FORBIDDEN", `workflow package ${pack.id} is another's; only its owner may change it`);

const presentWorkflowPackage = (pack: WorkflowPackageDocument) => ({
  id: pack.id,
  slug: pack.slug,
  displayName: pack.displayName,
  visibility: pack.visibility,
  ...(pack.summary !== undefined && { summary: pack.summary }),
  ...(pack.tags !== undefined && { tags: pack.tags }),
  ownerId: pack.owner,
  ownerName: pack.ownerName,
  updatedAt: isoTime(pack.updatedAt),
  ...(pack.versions[0] !== undefined && { latestVersion: pack.versions[0].version }),
  ...(pack.preview !== null && { previewImage: pack.preview }),
});

const presentPackageVersion = (one: WorkflowPackageVersionEntry) => ({
  id: one.id,
  version: one.version,
  publishedAt: isoTime(one.at),
  publisherId: one.by,
  ...(one.changelog !== undefined && { changelog: one.changelog }),
});
