// The routes about published versions. A version is written once, together with its workflow's document, and never again.

import type { DocPut, DocRow } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readPublishVersionRequest, type Workflow } from "@astraflow/protocol";
import {
  type Catalogue,
  checkWithFreshCatalogue,
  findProblemsIn,
  listDocuments,
  sortKeyOf,
  throwOnErrors,
} from "@astraflow/services";
import { type RouteHandler, readPageLimit } from "../requests/rest-call.ts";
import { readOptionalBody, staleRevisionFault } from "./workflow-request-readers.ts";
import {
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WorkflowStoreOptions,
  workflowIdempotencyKeyOf,
} from "./workflow-store.ts";
import { presentVersion } from "./workflow-view.ts";

/** The body of a version's document, `<workflow>/<n>`. */
export interface WorkflowVersionDocument {
  readonly workflowId: string;
  readonly version: number;
  readonly revision: number;
  readonly at: number;
  readonly by: string;
  readonly digest: string;
  readonly note?: string;
  readonly workflow: Workflow;
}

const versionCollection = "version";
const parseVersion = (doc: DocRow): WorkflowVersionDocument => JSON.parse(doc.body) as WorkflowVersionDocument;

export function versionPut(version: WorkflowVersionDocument, idempotencyKey: WorkflowIdempotencyKey | null): DocPut {
  return {
    collection: versionCollection,
    name: `${version.workflowId}/${version.version}`,
    rev: 0,
    body: JSON.stringify(version),
    sort: sortKeyOf(version.version),
    terms: idempotencyKey?.searchTerm ?? "",
  };
}

export type WorkflowVersionStore = ReturnType<typeof createWorkflowVersionStore>;

/** Reading versions; whoever asks has found the workflow first. */
export function createWorkflowVersionStore({ reader }: WorkflowStoreOptions) {
  const get = async (
    tenant: string,
    workflow: string,
    number: number,
  ): Promise<{ version: WorkflowVersionDocument; asOf: number }> => {
    const names = [`${workflow}/${number}`];
    const { items, head: asOf } = await reader.page({ page: "doc", tenant, collection: versionCollection, names });
    const doc = items[0] ?? null;
    if (doc === null) throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${number}`);
    return { version: parseVersion(doc), asOf };
  };

  const list = (tenant: string, workflow: string, page: { limit: number; cursor: string | undefined }) =>
    listDocuments(
      reader,
      { tenant, collection: versionCollection, prefix: `${workflow}/`, order: "desc" },
      { ...page, view: parseVersion },
    );

  /** The version that an earlier request under this key has made. */
  const madeBy = async (
    tenant: string,
    workflow: string,
    idempotencyKey: WorkflowIdempotencyKey | null,
  ): Promise<WorkflowVersionDocument | null> => {
    if (idempotencyKey === null) return null;
    const prefix = `${workflow}/`;
    const query = {
      page: "docs",
      tenant,
      collection: versionCollection,
      prefix,
      search: idempotencyKey.searchTerm,
      limit: 1,
    } as const;
    const [doc] = (await reader.page(query)).items;
    return doc === undefined ? null : parseVersion(doc);
  };

  return { get, list, madeBy };
}

type WorkflowVersionRoutes = "publishVersion" | "listVersions" | "getVersion";

export function versionHandlers(
  options: WorkflowStoreOptions,
  store: WorkflowStore,
  versions: WorkflowVersionStore,
): Record<WorkflowVersionRoutes, RouteHandler> {
  const { digest, catalogues } = options;

  return {
    async publishVersion(call) {
      const id = call.params["workflowId"] ?? "";
      const { tenant, user } = call.identity;
      const request = readPublishVersionRequest(readOptionalBody(call));
      if (request instanceof Fault) throw request;
      const idempotencyKey = workflowIdempotencyKeyOf(call, digest, { route: "publishVersion", id, request });
      const found = await store.find(call.identity, id);
      const existing = await versions.madeBy(tenant, id, idempotencyKey);
      // What was published was let through then, whatever the catalogue says now.
      const options = { allowUnknown: existing !== null || request.allowUnknown === true };
      const { workflow } = existing ?? found.head;
      // The catalogue that this draft was judged by is good enough for one that is saved meanwhile.
      const check = (catalogue: Catalogue) => ({ catalogue, problems: findProblemsIn(workflow, catalogue, options) });
      const { catalogue, problems } = await checkWithFreshCatalogue(catalogues, tenant, check, (result) => result.problems);
      if (existing !== null) return versionReply(existing, problems, true);

      let published: WorkflowVersionDocument = nextVersionOf(found.head, user, store.now(), digest, request.note);
      const { repeated } = await store.change(call, id, {
        action: "workflow.publish",
        ask: idempotencyKey,
        decide(document) {
          if (request.revision !== undefined && request.revision !== document.revision) throw staleRevisionFault(document);
          throwOnErrors(findProblemsIn(document.workflow, catalogue, options));
          published = nextVersionOf(document, user, store.now(), digest, request.note);
          return {
            head: { ...document, version: published.version, publishedRevision: document.revision },
            puts: [versionPut(published, idempotencyKey)],
            data: { version: published.version },
          };
        },
      });
      // Two equal requests at once: the other one made it.
      const written = repeated ? ((await versions.madeBy(tenant, id, idempotencyKey)) ?? published) : published;
      return versionReply(written, findProblemsIn(written.workflow, catalogue, options), repeated);
    },

    async listVersions(call) {
      const id = call.params["workflowId"] ?? "";
      const limit = readPageLimit(call.query);
      await store.find(call.identity, id);
      const { items, ...page } = await versions.list(call.identity.tenant, id, { limit, cursor: call.query["cursor"] });
      return { body: { items: items.map(presentVersion), ...page } };
    },

    async getVersion(call) {
      const id = call.params["workflowId"] ?? "";
      await store.find(call.identity, id);
      const { version, asOf } = await versions.get(call.identity.tenant, id, readVersionNumber(call.params["version"] ?? "", id));
      return { body: { ...presentVersion(version), workflow: version.workflow, asOf }, headers: { etag: `"${version.digest}"` } };
    },
  };
}

function nextVersionOf(
  document: WorkflowDocument,
  by: string,
  at: number,
  digest: (text: string) => string,
  note: string | undefined,
): WorkflowVersionDocument {
  return {
    workflowId: document.id,
    version: document.version + 1,
    revision: document.revision,
    at,
    by,
    digest: digest(canonicalJson(document.workflow)),
    ...(note !== undefined && { note }),
    workflow: document.workflow,
  };
}

const versionReply = (version: WorkflowVersionDocument, problems: readonly object[], repeated: boolean) => ({
  body: { ...presentVersion(version), problems },
  headers: repeated ? { "idempotent-replayed": "true" } : {},
});

/** A number that no version has is a version that does not exist. */
function readVersionNumber(text: string, workflow: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${text.slice(0, 20)}`);
}
