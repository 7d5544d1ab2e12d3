// Workflows published as packages: a package has an owner and versions, and others may clone each version.

import type { DocPut } from "@astraflow/engine";
import {
  type Fault,
  fault,
  type RouteBody,
  type Visibility,
  visibilities,
  type Workflow,
  type WorkflowPublishRequest,
} from "@astraflow/protocol";
import { searchTermFor, uuidFromText } from "../documents/derived-names.ts";
import { isConflict, notFound, readDocument, retryOnConflict } from "../documents/documents.ts";
import { displayNameOf, OwnedDocumentStore, ownerSearchTerm, owns } from "../documents/owned-documents.ts";
import type { Caller, CallerIdentity } from "../identity/identity.ts";
import { findPackageProblems, findProblems, isError, throwOnErrors } from "./workflow-checks.ts";
import { withNewId } from "./workflow-files.ts";
import {
  newWorkflowDocument,
  type WorkflowContext,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStore,
  type WrittenWorkflow,
} from "./workflow-store.ts";

/** The body of a package's document. */
export interface WorkflowPackageDocument {
  readonly id: string;
  readonly owner: string;
  readonly ownerName: string;
  readonly slug: string;
  readonly displayName: string;
  readonly visibility: Visibility;
  readonly summary?: string;
  readonly tags?: readonly string[];
  readonly preview: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly deletedAt: number | null;
  /** Newest first. Their workflows are documents of their own, `<package>/<version>`. */
  readonly versions: readonly WorkflowPackageVersionEntry[];
}

export interface WorkflowPackageVersionEntry {
  readonly id: string;
  readonly version: string;
  readonly at: number;
  readonly by: string;
  readonly changelog?: string;
  /** Search term of the idempotency key and request that made it. */
  readonly ask?: string;
}

export interface WorkflowPackageVersionDocument extends WorkflowPackageVersionEntry {
  readonly workflow: Workflow;
  readonly source: { readonly workflowId: string; readonly revision: number };
}

const versionCollection = "wpversion";
const packageLimits = { versionsMax: 1_000, changelogsCharsMax: 1_048_576, attemptsMax: 8 } as const;

export class WorkflowPackages extends OwnedDocumentStore<WorkflowPackageDocument, WorkflowContext> {
  readonly #store: WorkflowStore;

  constructor(store: WorkflowStore) {
    super(store.context, "wpackage");
    this.#store = store;
  }

  async find(identity: CallerIdentity, id: string) {
    const { document, rev, asOf } = await this.readAny(identity.tenant, id);
    if (document === null || !canSeePackage(identity, document)) throw notFound("workflow package", id);
    return { document, rev, asOf };
  }

  list(identity: CallerIdentity, query: Readonly<Record<string, string>>, limit: number) {
    const { owner, visibility, search = "", cursor } = query;
    if (visibility !== undefined && !(visibilities as readonly string[]).includes(visibility))
      throw fault("E.REQUEST.INVALID", `query.visibility must be one of ${visibilities.join(", ")}`, {
        path: "query.visibility",
      });
    const user = owner === "me" ? identity.user : owner;
    const words = [
      ...(user === undefined ? [] : [ownerSearchTerm(user)]),
      ...(visibility === undefined ? [] : [searchTermFor("visibility", visibility)]),
      search,
    ];
    return this.listVisible(identity.tenant, { limit, cursor, search: words.join(" ") }, (pack) => canSeePackage(identity, pack));
  }

  /** Publishes the draft of a workflow as a version of a package. */
  async publish(caller: Caller, workflowId: string, request: WorkflowPublishRequest, ask: WorkflowIdempotencyKey | null) {
    const { tenant, user } = caller.identity;
    const { document } = await this.#store.find(caller.identity, workflowId);
    const { workflow } = document;
    const packageId = request.packageId ?? uuidFromText(`workflow-package ${tenant} ${workflowId}`);
    const { version } = request;
    const versionId = uuidFromText(`workflow-package ${tenant} ${packageId} ${version}`);
    const published = { packageId, versionId, version };
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await findProblems(this.context.catalogues, tenant, workflow, allow);
    if (problems.some(isError) && wasPublishedBy((await this.readAny(tenant, packageId)).document, version, ask))
      return { ...published, repeated: true };
    throwOnErrors(problems);
    const entry: WorkflowPackageVersionEntry = {
      id: versionId,
      version,
      at: this.now(),
      by: user,
      ...(request.changelog !== undefined && { changelog: request.changelog }),
      ...(ask !== null && { ask: ask.searchTerm }),
    };
    const body: WorkflowPackageVersionDocument = { ...entry, workflow, source: { workflowId, revision: document.revision } };
    const name = `${packageId}/${version}`;
    const versionPut = { collection: versionCollection, name, rev: 0, body: JSON.stringify(body) };
    const { repeated } = await retryOnConflict(packageLimits.attemptsMax, async () => {
      const { document: before, rev } = await this.readAny(tenant, packageId);
      checkPublishAccess(caller.identity, before, request.packageId);
      const pack = packageWithVersion(before, { id: packageId, request, document, version: entry, identity: caller.identity });
      return this.#write(caller, "publish", pack, rev, { puts: [versionPut], ask }).catch((problem: unknown) => {
        if (!isConflict(problem)) throw problem;
        // The engine names the first conflict; if the package has changed, the version may exist as well.
        const exists = problem.details?.["collection"] === versionCollection || hasVersion(before, version);
        throw exists ? versionExists(packageId, version) : problem;
      });
    });
    return { ...published, repeated };
  }

  async delete(caller: Caller, id: string): Promise<void> {
    await retryOnConflict(packageLimits.attemptsMax, async () => {
      const { document: pack, rev } = await this.find(caller.identity, id);
      if (!owns(caller.identity, pack)) throw notOwnerFault(pack);
      return this.#write(caller, "delete", { ...pack, deletedAt: this.now() }, rev);
    });
  }

  /** Creates a workflow of the caller's own from a version of a package. */
  async clone(
    caller: Caller,
    packageId: string,
    request: RouteBody<"cloneWorkflowPackage">,
    ask: WorkflowIdempotencyKey | null,
  ): Promise<WrittenWorkflow> {
    const { tenant, user } = caller.identity;
    const { catalogues, environment } = this.context;
    const { document: pack } = await this.find(caller.identity, packageId);
    const { version, workflow } = await this.#readVersion(tenant, pack.id, chooseVersion(pack, request));
    const workflowId = uuidFromText(`clone ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
    const allow = { allowUnknown: request.allowUnknown ?? false };
    const problems = await findPackageProblems(catalogues, tenant, [workflow], allow);
    const clone = withNewId(workflow, workflowId);
    const named = { ...clone, metadata: { ...clone.metadata, name: request.workflowName ?? workflow.metadata.name } };
    const document = { ...newWorkflowDocument(caller, this.now(), named, ask), preview: pack.preview };
    const write = { document, data: { package: pack.id, version } };
    return this.#store.create(caller, write, problems, { action: "workflow.clone", ask });
  }

  async #readVersion(tenant: string, pack: string, version: string): Promise<WorkflowPackageVersionDocument> {
    const { doc } = await readDocument(this.context.reader, tenant, versionCollection, `${pack}/${version}`);
    if (doc === null) throw fault("E.NOT_FOUND", `workflow package ${pack} has no version ${version}`);
    return JSON.parse(doc.body) as WorkflowPackageVersionDocument;
  }

  #write(
    caller: Caller,
    verb: "publish" | "delete",
    pack: WorkflowPackageDocument,
    rev: number,
    { puts = [], ask = null }: { readonly puts?: readonly DocPut[]; readonly ask?: WorkflowIdempotencyKey | null } = {},
  ) {
    const texts = [pack.displayName, pack.slug, ...(pack.tags ?? []), pack.owner, pack.ownerName, pack.summary ?? ""];
    const put = this.putOf(pack, rev, [searchTermFor("visibility", pack.visibility)], texts);
    const audit = { action: `workflow-package.${verb}`, targetType: "workflow-package", target: pack.id };
    return this.writeAs(caller, ask, { puts: [put, ...puts], audit });
  }
}

const canSeePackage = (identity: CallerIdentity, pack: WorkflowPackageDocument): boolean =>
  pack.deletedAt === null && (pack.visibility !== "private" || owns(identity, pack));
const hasVersion = (pack: WorkflowPackageDocument | null, version: string): boolean =>
  pack?.versions.some((one) => one.version === version) ?? false;

interface PackagePublication {
  readonly id: string;
  readonly request: WorkflowPublishRequest;
  readonly document: WorkflowDocument;
  readonly version: WorkflowPackageVersionEntry;
  readonly identity: CallerIdentity;
}

/** The package with the new version; fields missing in the request stay as they were. */
function packageWithVersion(
  before: WorkflowPackageDocument | null,
  { id, request, document, version, identity }: PackagePublication,
): WorkflowPackageDocument {
  const versions = hasVersion(before, version.version) ? (before?.versions ?? []) : [version, ...(before?.versions ?? [])];
  const changelogs = versions.reduce((sum, one) => sum + (one.changelog?.length ?? 0), 0);
  if (versions.length > packageLimits.versionsMax || changelogs > packageLimits.changelogsCharsMax)
    throw fault("E.REQUEST.TOO_LARGE", `workflow package ${id} has as many versions as one may have; publish into a new one`);
  const displayName = request.displayName ?? before?.displayName ?? document.workflow.metadata.name;
  const summary = request.summary ?? before?.summary ?? document.workflow.metadata.description;
  const tags = request.tags ?? before?.tags ?? document.workflow.metadata.tags;
  return {
    id,
    owner: before?.owner ?? identity.user,
    ownerName: before?.ownerName ?? displayNameOf(identity),
    slug: request.slug ?? before?.slug ?? slugOf(displayName),
    displayName,
    visibility: request.visibility ?? before?.visibility ?? "private",
    ...(summary !== undefined && { summary }),
    ...(tags !== undefined && { tags }),
    preview: request.previewImage ?? document.preview ?? before?.preview ?? null,
    createdAt: before?.createdAt ?? version.at,
    updatedAt: version.at,
    deletedAt: null,
    versions,
  };
}

/** Letters and digits of the name with hyphens between them; "workflow" if there are none. */
function slugOf(name: string): string {
  const plain = name.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();
  const words = plain.match(/[a-z0-9]+/g) ?? [];
  return words.join("-").slice(0, 128).replace(/-+$/, "") || "workflow";
}

/** A package that is named must exist, and only its owner may publish into it. */
function checkPublishAccess(identity: CallerIdentity, pack: WorkflowPackageDocument | null, named: string | undefined): void {
  if (pack === null) {
    if (named !== undefined) throw notFound("workflow package", named);
  } else if (!owns(identity, pack))
    throw canSeePackage(identity, pack) ? notOwnerFault(pack) : notFound("workflow package", pack.id);
}

/** Whether this key published the version before, when the catalogue or the draft was another. */
const wasPublishedBy = (pack: WorkflowPackageDocument | null, version: string, ask: WorkflowIdempotencyKey | null): boolean =>
  ask !== null && (pack?.versions.some((one) => one.version === version && one.ask === ask.searchTerm) ?? false);

/** The requested version, by its id or by its name; otherwise the newest. */
function chooseVersion(
  pack: WorkflowPackageDocument,
  { versionId, version }: { readonly versionId?: string; readonly version?: string },
): string {
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
  fault("E.AUTH.FORBIDDEN", `workflow package ${pack.id} belongs to another user; only its owner may change it`);
