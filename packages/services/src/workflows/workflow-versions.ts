// Published versions of workflows. A version is written once, together with its workflow's document, and never changed.

import type { DocPut, DocRow } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { fault, type PublishVersionRequest, type Workflow, type WorkflowProblem } from "@astraflow/protocol";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { sortKeyOf } from "../documents/derived-names.ts";
import { listDocuments } from "../documents/document-list.ts";
import { readDocument } from "../documents/documents.ts";
import type { Caller } from "../identity/caller.ts";
import { checkWithFreshCatalogue, findProblemsIn, throwOnErrors } from "./workflow-checks.ts";
import type { WorkflowServices } from "./workflow-services.ts";
import {
  staleRevisionFault,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStoreOptions,
} from "./workflow-store.ts";

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

const collection = "version";
const parseVersion = (doc: DocRow): WorkflowVersionDocument => JSON.parse(doc.body) as WorkflowVersionDocument;

export const versionPut = (version: WorkflowVersionDocument, idempotencyKey: WorkflowIdempotencyKey | null): DocPut => ({
  collection,
  name: `${version.workflowId}/${version.version}`,
  rev: 0,
  body: JSON.stringify(version),
  sort: sortKeyOf(version.version),
  terms: idempotencyKey?.searchTerm ?? "",
});

export type WorkflowVersionStore = ReturnType<typeof createWorkflowVersionStore>;

/** Reads versions. Callers have found the workflow first, so they may see it. */
export function createWorkflowVersionStore({ reader }: Pick<WorkflowStoreOptions, "reader">) {
  return {
    async get(tenant: string, workflow: string, number: number): Promise<{ version: WorkflowVersionDocument; asOf: number }> {
      const { doc, head: asOf } = await readDocument(reader, tenant, collection, `${workflow}/${number}`);
      if (doc === null) throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${number}`);
      return { version: parseVersion(doc), asOf };
    },
    list: (tenant: string, workflow: string, page: { limit: number; cursor: string | undefined }) =>
      listDocuments(reader, { tenant, collection, prefix: `${workflow}/`, order: "desc" }, { ...page, view: parseVersion }),
    /** The version that an earlier request with this key made. */
    async findMadeBy(
      tenant: string,
      workflow: string,
      idempotencyKey: WorkflowIdempotencyKey | null,
    ): Promise<WorkflowVersionDocument | null> {
      if (idempotencyKey === null) return null;
      const query = { tenant, collection, prefix: `${workflow}/`, search: idempotencyKey.searchTerm, limit: 1 };
      const [doc] = (await reader.page({ page: "docs", ...query })).items;
      return doc === undefined ? null : parseVersion(doc);
    },
  };
}

export interface PublishedVersion {
  readonly version: WorkflowVersionDocument;
  readonly problems: readonly WorkflowProblem[];
  readonly repeated: boolean;
}

/** Publishes the draft as the next version. */
export async function publishVersion(
  { store, versions, catalogues, digest }: WorkflowServices,
  caller: Caller,
  id: string,
  { allowUnknown = false, note, revision }: PublishVersionRequest,
  idempotencyKey: WorkflowIdempotencyKey | null,
): Promise<PublishedVersion> {
  const { tenant, user } = caller.identity;
  const found = await store.find(caller.identity, id);
  const existing = await versions.findMadeBy(tenant, id, idempotencyKey);
  // A version that was published before passed its checks then, whatever the catalogue says now.
  const options = { allowUnknown: existing !== null || allowUnknown };
  const { workflow } = existing ?? found.document;
  // The catalogue that this draft was checked against also serves for a draft that is saved meanwhile.
  const check = (catalogue: Catalogue) => ({ catalogue, problems: findProblemsIn(workflow, catalogue, options) });
  const { catalogue, problems } = await checkWithFreshCatalogue(catalogues, tenant, check, (result) => result.problems);
  if (existing !== null) return { version: existing, problems, repeated: true };

  const nextVersionOf = (document: WorkflowDocument): WorkflowVersionDocument => ({
    workflowId: document.id,
    version: document.version + 1,
    revision: document.revision,
    at: store.now(),
    by: user,
    digest: digest(canonicalJson(document.workflow)),
    ...(note !== undefined && { note }),
    workflow: document.workflow,
  });
  let published = nextVersionOf(found.document);
  const { repeated } = await store.update(caller, id, {
    action: "workflow.publish",
    ask: idempotencyKey,
    decide(document) {
      if (revision !== undefined && revision !== document.revision) throw staleRevisionFault(document);
      throwOnErrors(findProblemsIn(document.workflow, catalogue, options));
      published = nextVersionOf(document);
      return {
        document: { ...document, version: published.version, publishedRevision: document.revision },
        puts: [versionPut(published, idempotencyKey)],
        data: { version: published.version },
      };
    },
  });
  // Of two equal requests at once, the other one made it.
  const version = repeated ? ((await versions.findMadeBy(tenant, id, idempotencyKey)) ?? published) : published;
  return { version, problems: findProblemsIn(version.workflow, catalogue, options), repeated };
}
