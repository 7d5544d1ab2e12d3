// The routes about workflows: saved, shown, checked, edited as drafts, compared, published as versions, exported and imported; and the
// catalogue of packages and node types that they are made of, workflows that were published as packages among them.

import { canonicalJson } from "@astraflow/graph";
import { bodyReaderOf, fault, readWorkflowFile, readWorkflowPreview } from "@astraflow/protocol";
import {
  type CatalogueCache,
  getPackage,
  listPackages,
  presentDraft,
  presentDraftChange,
  presentPackageVersion,
  presentVersion,
  presentWorkflow,
  presentWorkflowPackage,
  searchNodes,
  searchTermFor,
  staleRevisionFault,
  validateWorkflow,
  type WorkflowIdempotencyKey,
  type WorkflowServices,
  type WrittenWorkflow,
  workflowEtag,
} from "@astraflow/services";
import {
  invalidRequest,
  type RestCall,
  type RestReply,
  type RouteHandlers,
  replayedHeader,
  throwIfFault,
} from "../requests/rest-call.ts";

export const workflowHandlers = (workflows: WorkflowServices) => ({
  ...storedWorkflowHandlers(workflows),
  ...draftHandlers(workflows),
  ...versionHandlers(workflows),
  ...workflowFileHandlers(workflows),
  ...workflowPackageHandlers(workflows),
  ...catalogueHandlers(workflows.catalogues),
});

const readRevisionCheck = (call: RestCall) => call.readRevisionCheck(workflowEtag, staleRevisionFault);

/** The key of a request with a digest of all that makes it this request; null without a key. */
function workflowIdempotencyKeyOf(
  call: RestCall,
  digest: (text: string) => string,
  request: object,
): WorkflowIdempotencyKey | null {
  const key = call.readIdempotencyKey();
  if (key === null) return null;
  const sum = digest(canonicalJson([call.identity.user, request]));
  return { key, digest: sum, searchTerm: searchTermFor("ask", `${call.tenant} ${key} ${sum}`) };
}

const writtenReply = ({ revision, repeated, ...body }: WrittenWorkflow): RestReply =>
  revision === null
    ? { body, headers: replayedHeader(repeated) }
    : { body: { ...body, revision }, headers: { etag: `"r${revision}"`, ...replayedHeader(repeated) } };

function storedWorkflowHandlers(workflows: WorkflowServices) {
  const { store, drafts, digest } = workflows;
  const previewBody = (preview: string | null) => (preview === null ? {} : { previewImage: preview });
  return {
    async listWorkflows(call) {
      const { cursor, search = "" } = call.query;
      const { items, ...page } = await store.list(call.identity, { limit: call.readPageLimit(), cursor, search });
      return { body: { items: items.map(presentWorkflow), ...page } };
    },

    async validateWorkflow(call) {
      const body = call.readBody(bodyReaderOf("validateWorkflow"));
      return { body: await validateWorkflow(workflows.catalogues, call.tenant, body) };
    },

    async saveWorkflow(call) {
      const body = call.readJson();
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "saveWorkflow", body });
      return writtenReply(await drafts.save(call, body, idempotencyKey));
    },

    async getWorkflow(call) {
      const { document, asOf } = await store.find(call.identity, call.param("workflowId"));
      return { body: { ...presentWorkflow(document), asOf }, headers: { etag: workflowEtag(document) } };
    },

    async replaceWorkflow(call) {
      const checkRevision = readRevisionCheck(call);
      const { document, ...warnings } = await drafts.replace(call, call.param("workflowId"), call.readJson(), checkRevision);
      const body = { workflowId: document.id, revision: document.revision, ...warnings };
      return { body, headers: { etag: workflowEtag(document) } };
    },

    async deleteWorkflow(call) {
      await drafts.delete(call, call.param("workflowId"), readRevisionCheck(call));
      return { body: "" };
    },

    async getWorkflowPreview(call) {
      const { document, asOf } = await store.find(call.identity, call.param("workflowId"));
      return { body: { ...previewBody(document.preview), asOf } };
    },

    async putWorkflowPreview(call) {
      const { previewImage: preview = null } = call.readBody(readWorkflowPreview);
      await drafts.setPreview(call, call.param("workflowId"), preview);
      return { body: previewBody(preview) };
    },
  } satisfies RouteHandlers;
}

const draftHandlers = (workflows: WorkflowServices) =>
  ({
    async getDraft(call) {
      const { document, asOf } = await workflows.store.find(call.identity, call.param("workflowId"));
      const problems = await workflows.drafts.findProblems(call.tenant, document);
      return { body: { ...presentDraft(document), problems, asOf }, headers: { etag: workflowEtag(document) } };
    },

    async editDraft(call) {
      const request = call.readBody(bodyReaderOf("editDraft"));
      const { document, between } = await workflows.drafts.edit(call, call.param("workflowId"), request);
      const { id: workflowId, revision } = document;
      const problems = await workflows.drafts.findProblems(call.tenant, document);
      return {
        body: { workflowId, revision, between: between.map(presentDraftChange), problems },
        headers: { etag: workflowEtag(document) },
      };
    },

    async diffWorkflow(call) {
      const { from, to } = call.query;
      return { body: await workflows.drafts.diff(call, call.param("workflowId"), { from, to }) };
    },

    async rollbackWorkflow(call) {
      const id = call.param("workflowId");
      const request = call.readBody(bodyReaderOf("rollbackWorkflow"));
      const idempotencyKey = workflowIdempotencyKeyOf(call, workflows.digest, { route: "rollbackWorkflow", id, request });
      return writtenReply(await workflows.drafts.rollBack(call, id, request.version, idempotencyKey));
    },
  }) satisfies RouteHandlers;

function versionHandlers(workflows: WorkflowServices) {
  const { store, versions, digest } = workflows;
  return {
    async publishVersion(call) {
      const id = call.param("workflowId");
      const request = call.readOptionalBody(bodyReaderOf("publishVersion"));
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishVersion", id, request });
      const { version, problems, repeated } = await versions.publish(call, id, request, idempotencyKey);
      return { body: { ...presentVersion(version), problems }, headers: replayedHeader(repeated) };
    },

    async listVersions(call) {
      const id = call.param("workflowId");
      const limit = call.readPageLimit();
      await store.find(call.identity, id);
      const { items, ...page } = await versions.list(call.tenant, id, { limit, cursor: call.query["cursor"] });
      return { body: { items: items.map(presentVersion), ...page } };
    },

    async getVersion(call) {
      const id = call.param("workflowId");
      await store.find(call.identity, id);
      const { version, asOf } = await versions.get(call.tenant, id, readVersionNumber(call.param("version"), id));
      return { body: { ...presentVersion(version), workflow: version.workflow, asOf }, headers: { etag: `"${version.digest}"` } };
    },
  } satisfies RouteHandlers;
}

/** A number that no version can have is a version that does not exist. */
function readVersionNumber(text: string, workflow: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${text.slice(0, 20)}`);
}

const workflowFileHandlers = (workflows: WorkflowServices) =>
  ({
    async exportWorkflow(call) {
      const id = call.param("workflowId");
      const body = await workflows.files.export(call, id);
      return { body, headers: { "content-disposition": `attachment; filename="workflow-${id}.json"` } };
    },

    async importWorkflow(call) {
      const { ids = "keep" } = call.query;
      if (ids !== "keep" && ids !== "renew") throw invalidRequest("query.ids", "query.ids must be keep or renew");
      const body = call.readJson();
      const file = throwIfFault(readWorkflowFile(body));
      const idempotencyKey = workflowIdempotencyKeyOf(call, workflows.digest, { route: "importWorkflow", ids, body });
      return writtenReply(await workflows.files.import(call, file, ids, idempotencyKey));
    },
  }) satisfies RouteHandlers;

function workflowPackageHandlers({ packages, digest }: WorkflowServices) {
  return {
    async publishWorkflow(call) {
      const workflowId = call.param("workflowId");
      const request = call.readBody(bodyReaderOf("publishWorkflow"));
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishWorkflow", workflowId, request });
      const { repeated, ...body } = await packages.publish(call, workflowId, request, idempotencyKey);
      return { body, headers: replayedHeader(repeated) };
    },

    async cloneWorkflowPackage(call) {
      const packageId = call.param("packageId");
      const request = call.readOptionalBody(bodyReaderOf("cloneWorkflowPackage"));
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "cloneWorkflowPackage", packageId, request });
      return writtenReply(await packages.clone(call, packageId, request, idempotencyKey));
    },

    async listWorkflowPackages(call) {
      const { items, ...page } = await packages.list(call.identity, call.query, call.readPageLimit());
      return { body: { items: items.map(presentWorkflowPackage), ...page } };
    },

    async getWorkflowPackage(call) {
      const { document: pack, asOf } = await packages.find(call.identity, call.param("packageId"));
      return { body: { ...presentWorkflowPackage(pack), versions: pack.versions.map(presentPackageVersion), asOf } };
    },

    async listWorkflowPackageVersions(call) {
      const { document: pack, asOf } = await packages.find(call.identity, call.param("packageId"));
      return { body: { items: pack.versions.map(presentPackageVersion), asOf } };
    },

    async deleteWorkflowPackage(call) {
      await packages.delete(call, call.param("packageId"));
      return { body: "" };
    },
  } satisfies RouteHandlers;
}

const catalogueHandlers = (catalogues: CatalogueCache) =>
  ({
    async listPackages(call) {
      const { cursor } = call.query;
      return { body: await listPackages(catalogues, call.tenant, { cursor, limit: call.readPageLimit() }) };
    },

    getPackage: async (call) => ({
      body: await getPackage(catalogues, call.tenant, call.param("packageName"), call.query["version"]),
    }),

    async searchNodes(call) {
      const { q, package: packageName, cursor, limit } = call.query;
      const search = { q, packageName, cursor, limit: limit === undefined ? undefined : call.readPageLimit() };
      return { body: await searchNodes(catalogues, call.tenant, search) };
    },
  }) satisfies RouteHandlers;
