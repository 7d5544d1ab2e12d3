// The routes about published versions. A version is written once, together with its workflow's document, and never again.

import type { DocPut, DocRow } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, fault, readPublishVersionRequest, type Workflow } from "@astraflow/protocol";
import type { Catalogue } from "../../catalogue.ts";
import { type Handler, readLimit } from "../call.ts";
import { type AskWords, askOf, type Head, type Heads, type WorkflowsOptions } from "./workflow-heads.ts";
import { listDocs } from "./workflow-list.ts";
import { sortOf } from "./workflow-names.ts";
import { judged, problemsOf, refuseErrors } from "./workflow-problems.ts";
import { movedOn, readOptionalBody } from "./workflow-readers.ts";
import { viewVersion } from "./workflow-view.ts";

/** The body of a version's document, `<workflow>/<n>`. */
export interface Version {
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
const versionIn = (doc: DocRow): Version => JSON.parse(doc.body) as Version;

export function versionPut(version: Version, ask: AskWords | null): DocPut {
  return {
    collection: versionCollection,
    name: `${version.workflowId}/${version.version}`,
    rev: 0,
    body: JSON.stringify(version),
    sort: sortOf(version.version),
    terms: ask?.word ?? "",
  };
}

export type Versions = ReturnType<typeof createVersions>;

/** Reading versions; whoever asks has found the workflow first. */
export function createVersions({ reader }: WorkflowsOptions) {
  const get = async (tenant: string, workflow: string, number: number): Promise<{ version: Version; asOf: number }> => {
    const names = [`${workflow}/${number}`];
    const { items, head: asOf } = await reader.page({ page: "doc", tenant, collection: versionCollection, names });
    const doc = items[0] ?? null;
    if (doc === null) throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${number}`);
    return { version: versionIn(doc), asOf };
  };

  const list = (tenant: string, workflow: string, page: { limit: number; cursor: string | undefined }) =>
    listDocs(
      reader,
      { tenant, collection: versionCollection, prefix: `${workflow}/`, order: "desc" },
      { ...page, view: versionIn },
    );

  /** The version that an earlier request under this key has made. */
  const madeBy = async (tenant: string, workflow: string, ask: AskWords | null): Promise<Version | null> => {
    if (ask === null) return null;
    const prefix = `${workflow}/`;
    const query = { page: "docs", tenant, collection: versionCollection, prefix, search: ask.word, limit: 1 } as const;
    const [doc] = (await reader.page(query)).items;
    return doc === undefined ? null : versionIn(doc);
  };

  return { get, list, madeBy };
}

type VersionRoutes = "publishVersion" | "listVersions" | "getVersion";

export function versionHandlers(options: WorkflowsOptions, heads: Heads, versions: Versions): Record<VersionRoutes, Handler> {
  const { digest, catalogues } = options;

  return {
    async publishVersion(call) {
      const id = call.params["workflowId"] ?? "";
      const { tenant, user } = call.identity;
      const request = readPublishVersionRequest(readOptionalBody(call));
      if (request instanceof Fault) throw request;
      const ask = askOf(call, digest, { route: "publishVersion", id, request });
      const found = await heads.find(call.identity, id);
      const before = await versions.madeBy(tenant, id, ask);
      // What was published was let through then, whatever the catalogue says now.
      const options = { allowUnknown: before !== null || request.allowUnknown === true };
      const { workflow } = before ?? found.head;
      // The catalogue that this draft was judged by is good enough for one that is saved meanwhile.
      const judge = (catalogue: Catalogue) => ({ catalogue, problems: problemsOf(workflow, catalogue, options) });
      const { catalogue, problems } = await judged(catalogues, tenant, judge, (verdict) => verdict.problems);
      if (before !== null) return answer(before, problems, true);

      let made: Version = versionOf(found.head, user, heads.now(), digest, request.note);
      const { repeated } = await heads.change(call, id, {
        action: "workflow.publish",
        ask,
        decide(head) {
          if (request.revision !== undefined && request.revision !== head.revision) throw movedOn(head);
          refuseErrors(problemsOf(head.workflow, catalogue, options));
          made = versionOf(head, user, heads.now(), digest, request.note);
          return {
            head: { ...head, version: made.version, publishedRevision: head.revision },
            puts: [versionPut(made, ask)],
            data: { version: made.version },
          };
        },
      });
      // Two equal requests at once: the other one made it.
      const written = repeated ? ((await versions.madeBy(tenant, id, ask)) ?? made) : made;
      return answer(written, problemsOf(written.workflow, catalogue, options), repeated);
    },

    async listVersions(call) {
      const id = call.params["workflowId"] ?? "";
      const limit = readLimit(call.query);
      await heads.find(call.identity, id);
      const { items, ...page } = await versions.list(call.identity.tenant, id, { limit, cursor: call.query["cursor"] });
      return { body: { items: items.map(viewVersion), ...page } };
    },

    async getVersion(call) {
      const id = call.params["workflowId"] ?? "";
      await heads.find(call.identity, id);
      const { version, asOf } = await versions.get(call.identity.tenant, id, numberIn(call.params["version"] ?? "", id));
      return { body: { ...viewVersion(version), workflow: version.workflow, asOf }, headers: { etag: `"${version.digest}"` } };
    },
  };
}

function versionOf(head: Head, by: string, at: number, digest: (text: string) => string, note: string | undefined): Version {
  return {
    workflowId: head.id,
    version: head.version + 1,
    revision: head.revision,
    at,
    by,
    digest: digest(canonicalJson(head.workflow)),
    ...(note !== undefined && { note }),
    workflow: head.workflow,
  };
}

const answer = (version: Version, problems: readonly object[], repeated: boolean) => ({
  body: { ...viewVersion(version), problems },
  headers: repeated ? { "idempotent-replayed": "true" } : {},
});

/** A number that no version has is a version that does not exist. */
function numberIn(text: string, workflow: string): number {
  if (/^[1-9][0-9]{0,8}$/.test(text)) return Number(text);
  throw fault("E.NOT_FOUND", `workflow ${workflow} has no version ${text.slice(0, 20)}`);
}
