// Published versions of workflows. A version is written once, together with its workflow's document, and never changed.

import type { DocPut, DocRow } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { fault, type PublishVersionRequest, type Workflow } from "@astraflow/protocol";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { sortKeyOf } from "../documents/derived-names.ts";
import { listDocuments } from "../documents/document-list.ts";
import { readDocument } from "../documents/documents.ts";
import type { Caller } from "../identity/identity.ts";
import { findProblemsIn, throwOnErrors } from "./workflow-checks.ts";
import { staleRevisionFault, type WorkflowDocument, type WorkflowIdempotencyKey, type WorkflowStore } from "./workflow-store.ts";

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

export const versionPut = (version: WorkflowVersionDocument, ask: WorkflowIdempotencyKey | null): DocPut => ({
  collection,
  name: `${version.workflowId}/${version.version}`,
  rev: 0,
  body: JSON.stringify(version),
  sort: sortKeyOf(version.version),
  terms: ask?.searchTerm ?? "",
});

export class WorkflowVersions {
  readonly #store: WorkflowStore;

  constructor(store: WorkflowStore) {
    this.#store = store;
  }

  /** For callers that have found the workflow first, so that they may see it. */
  async get(tenant: string, workflow: string, number: number): Promise<{ version: WorkflowVersionDocument; asOf: number }> {
    const { doc, head: asOf } = await readDocument(this.#store.context.reader, tenant, collection, `${workflow}/${number}`);
    if (doc === null) throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${number}`);
    return { version: parseVersion(doc), asOf };
  }

  /** Newest first; for callers that have found the workflow first. */
  list(tenant: string, workflow: string, page: { limit: number; cursor: string | undefined }) {
    const query = { tenant, collection, prefix: `${workflow}/`, order: "desc" } as const;
    return listDocuments(this.#store.context.reader, query, { ...page, view: parseVersion });
  }

  /** Publishes the draft as the next version. */
  async publish(
    caller: Caller,
    id: string,
    { allowUnknown = false, note, revision }: PublishVersionRequest,
    ask: WorkflowIdempotencyKey | null,
  ) {
    const { catalogues, digest } = this.#store.context;
    const { tenant, user } = caller.identity;
    const found = await this.#store.find(caller.identity, id);
    const existing = await this.#findMadeBy(tenant, id, ask);
    // A version that was published before passed its checks then, whatever the catalogue says now.
    const options = { allowUnknown: existing !== null || allowUnknown };
    const { workflow } = existing ?? found.document;
    // The catalogue that this draft was checked against also serves for a draft that is saved meanwhile.
    const check = (catalogue: Catalogue, stepsMax?: number) => ({
      catalogue,
      problems: findProblemsIn(workflow, catalogue, { ...options, stepsMax }),
    });
    const { catalogue, problems } = await catalogues.check(tenant, check);
    if (existing !== null) return { version: existing, problems, repeated: true };

    const nextVersionOf = (document: WorkflowDocument): WorkflowVersionDocument => ({
      workflowId: document.id,
      version: document.version + 1,
      revision: document.revision,
      at: this.#store.now(),
      by: user,
      digest: digest(canonicalJson(document.workflow)),
      ...(note !== undefined && { note }),
      workflow: document.workflow,
    });
    // Checking takes long, and mostly the draft is still the one that was checked above.
    const checked = new Map([[found.document.revision, problems]]);
    const problemsOf = ({ revision: at, workflow: draft }: Pick<WorkflowDocument, "revision" | "workflow">) => {
      const known = checked.get(at) ?? findProblemsIn(draft, catalogue, options);
      checked.set(at, known);
      return known;
    };
    let published = nextVersionOf(found.document);
    const { repeated } = await this.#store.update(caller, id, {
      action: "workflow.publish",
      ask,
      decide(document) {
        if (revision !== undefined && revision !== document.revision) throw staleRevisionFault(document);
        throwOnErrors(problemsOf(document));
        published = nextVersionOf(document);
        return {
          document: { ...document, version: published.version, publishedRevision: document.revision },
          puts: [versionPut(published, ask)],
          data: { version: published.version },
        };
      },
    });
    // Of two equal requests at once, the other one made it.
    const version = repeated ? ((await this.#findMadeBy(tenant, id, ask)) ?? published) : published;
    return { version, problems: problemsOf(version), repeated };
  }

  /** The version that an earlier request with this key made. */
  async #findMadeBy(tenant: string, workflow: string, ask: WorkflowIdempotencyKey | null) {
    if (ask === null) return null;
    const query = { tenant, collection, prefix: `${workflow}/`, search: ask.searchTerm, limit: 1 };
    const [doc] = (await this.#store.context.reader.page({ page: "docs", ...query })).items;
    return doc === undefined ? null : parseVersion(doc);
  }
}
