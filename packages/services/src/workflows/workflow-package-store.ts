// Stored workflow packages: who may see them, how they are found, listed and written.

import { type DocPut, type DocRow, searchWords } from "@astraflow/engine";
import {
  type Fault,
  fault,
  type Visibility,
  visibilities,
  type Workflow,
  type WorkflowPublishRequest,
} from "@astraflow/protocol";
import { isUuid, searchTermFor, sortKeyOf } from "../documents/derived-names.ts";
import { listDocuments } from "../documents/document-list.ts";
import { readDocument, writeDocuments } from "../documents/documents.ts";
import { actorOf, type Caller, isOwnerOrAdmin } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";
import {
  displayNameOf,
  type WorkflowDocument,
  type WorkflowIdempotencyKey,
  type WorkflowStoreOptions,
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

const workflowPackageCollection = "wpackage";
export const workflowPackageVersionCollection = "wpversion";
export const workflowPackageLimits = { versionsMax: 1_000, changelogsCharsMax: 1_048_576, attemptsMax: 8, termsMax: 96 } as const;

const parsePackage = (doc: DocRow): WorkflowPackageDocument => JSON.parse(doc.body) as WorkflowPackageDocument;
export const packageNotFound = (id: string): Fault => fault("E.NOT_FOUND", `there is no workflow package ${id.slice(0, 100)}`);
export const ownsPackage = (identity: CallerIdentity, pack: WorkflowPackageDocument): boolean =>
  isOwnerOrAdmin(identity, pack.owner);
export const canSeePackage = (identity: CallerIdentity, pack: WorkflowPackageDocument): boolean =>
  pack.deletedAt === null && (pack.visibility !== "private" || ownsPackage(identity, pack));

interface PackageWrite {
  readonly action: string;
  readonly target: string;
  readonly puts: readonly DocPut[];
  readonly ask: WorkflowIdempotencyKey | null;
}

export type WorkflowPackageStore = ReturnType<typeof createWorkflowPackageStore>;

export function createWorkflowPackageStore({ engineClient, reader }: WorkflowStoreOptions) {
  /** Whoever owns it, deleted or not. */
  const readAny = async (tenant: string, id: string) => {
    if (!isUuid(id)) return { pack: null, rev: 0, asOf: 0 };
    const { doc, head: asOf } = await readDocument(reader, tenant, workflowPackageCollection, id);
    return { pack: doc === null ? null : parsePackage(doc), rev: doc?.rev ?? 0, asOf };
  };
  return {
    readAny,
    async find(identity: CallerIdentity, id: string) {
      const { pack, rev, asOf } = await readAny(identity.tenant, id);
      if (pack === null || !canSeePackage(identity, pack)) throw packageNotFound(id);
      return { pack, rev, asOf };
    },
    async readVersion(tenant: string, pack: string, version: string): Promise<WorkflowPackageVersionDocument> {
      const { doc } = await readDocument(reader, tenant, workflowPackageVersionCollection, `${pack}/${version}`);
      if (doc === null) throw fault("E.NOT_FOUND", `workflow package ${pack} has no version ${version}`);
      return JSON.parse(doc.body) as WorkflowPackageVersionDocument;
    },
    write(caller: Caller, { action, target, puts, ask }: PackageWrite): Promise<{ readonly repeated: boolean }> {
      const audit = { action, targetType: "workflow-package", target };
      return writeDocuments(engineClient, actorOf(caller), {
        puts,
        audit,
        ask: ask === null ? null : { key: ask.key, digest: ask.digest },
      });
    },
    list(identity: CallerIdentity, query: Readonly<Record<string, string>>, limit: number) {
      const { owner, visibility, search = "", cursor } = query;
      if (visibility !== undefined && !(visibilities as readonly string[]).includes(visibility))
        throw fault("E.REQUEST.INVALID", `query.visibility must be one of ${visibilities.join(", ")}`, {
          path: "query.visibility",
        });
      const user = owner === "me" ? identity.user : owner;
      const words = [
        ...(user === undefined ? [] : [searchTermFor("owner", user)]),
        ...(visibility === undefined ? [] : [searchTermFor("visibility", visibility)]),
        search,
      ];
      const docs = {
        tenant: identity.tenant,
        collection: workflowPackageCollection,
        order: "desc",
        search: words.join(" "),
      } as const;
      return listDocuments(reader, docs, {
        limit,
        cursor,
        view(doc) {
          const pack = parsePackage(doc);
          return canSeePackage(identity, pack) ? pack : null;
        },
        isEnd: (doc) => doc.sort === "",
      });
    },
  };
}

export const hasVersion = (pack: WorkflowPackageDocument | null, version: string): boolean =>
  pack?.versions.some((one) => one.version === version) ?? false;

interface PackagePublication {
  readonly id: string;
  readonly request: WorkflowPublishRequest;
  readonly document: WorkflowDocument;
  readonly version: WorkflowPackageVersionEntry;
  readonly identity: CallerIdentity;
}

/** The package with the new version; fields missing in the request stay as they were. */
export function packageWithVersion(
  before: WorkflowPackageDocument | null,
  { id, request, document, version, identity }: PackagePublication,
): WorkflowPackageDocument {
  const versions = hasVersion(before, version.version) ? (before?.versions ?? []) : [version, ...(before?.versions ?? [])];
  const changelogs = versions.reduce((sum, one) => sum + (one.changelog?.length ?? 0), 0);
  if (versions.length > workflowPackageLimits.versionsMax || changelogs > workflowPackageLimits.changelogsCharsMax)
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
  const words =
    name
      .normalize("NFKD")
      .replaceAll(/\p{M}/gu, "")
      .toLowerCase()
      .match(/[a-z0-9]+/g) ?? [];
  return words.join("-").slice(0, 128).replace(/-+$/, "") || "workflow";
}

export function packagePut(pack: WorkflowPackageDocument, rev: number): DocPut {
  const texts = [pack.displayName, pack.slug, ...(pack.tags ?? []), pack.owner, pack.ownerName, pack.summary ?? ""];
  const fixed = [searchTermFor("owner", pack.owner), searchTermFor("visibility", pack.visibility)];
  const words = new Set([...fixed, ...texts.flatMap(searchWords)]);
  const isActive = pack.deletedAt === null;
  return {
    collection: workflowPackageCollection,
    name: pack.id,
    rev,
    body: JSON.stringify(pack),
    sort: isActive ? sortKeyOf(pack.updatedAt) : "",
    terms: isActive ? [...words].slice(0, workflowPackageLimits.termsMax).join(" ") : "",
  };
}
