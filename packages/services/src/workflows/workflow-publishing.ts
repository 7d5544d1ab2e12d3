// Workflows published as packages: a package has an owner and versions, and others may clone each version.

import { checkPackages } from "@astraflow/graph";
import { type Fault, fault, type readWorkflowCloneRequest, type WorkflowPublishRequest } from "@astraflow/protocol";
import { uuidFromText } from "../documents/derived-names.ts";
import { isConflict, retryOnConflict } from "../documents/documents.ts";
import type { Caller } from "../identity/caller.ts";
import type { CallerIdentity } from "../identity/identity.ts";
import { findProblems, findProblemsIn, isError, throwOnErrors } from "./workflow-checks.ts";
import type { WrittenWorkflow } from "./workflow-drafts.ts";
import {
  canSeePackage,
  hasVersion,
  ownsPackage,
  packageNotFound,
  packagePut,
  packageWithVersion,
  type WorkflowPackageDocument,
  type WorkflowPackageVersionDocument,
  type WorkflowPackageVersionEntry,
  workflowPackageLimits,
  workflowPackageVersionCollection,
} from "./workflow-package-store.ts";
import type { WorkflowServices } from "./workflow-services.ts";
import { newWorkflowDocument, revisionMadeBy, type WorkflowIdempotencyKey } from "./workflow-store.ts";
import { withNewId } from "./workflow-transfer.ts";

export interface PublishedPackage {
  readonly packageId: string;
  readonly versionId: string;
  readonly version: string;
  readonly repeated: boolean;
}

/** Publishes the draft of a workflow as a version of a package. */
export async function publishWorkflow(
  { store, packages, catalogues }: WorkflowServices,
  caller: Caller,
  workflowId: string,
  request: WorkflowPublishRequest,
  ask: WorkflowIdempotencyKey | null,
): Promise<PublishedPackage> {
  const { tenant, user } = caller.identity;
  const { document } = await store.find(caller.identity, workflowId);
  const packageId = request.packageId ?? uuidFromText(`workflow-package ${tenant} ${workflowId}`);
  const { version } = request;
  const versionId = uuidFromText(`workflow-package ${tenant} ${packageId} ${version}`);
  const published = { packageId, versionId, version };
  const allow = { allowUnknown: request.allowUnknown ?? false };
  const problems = await findProblems(catalogues, tenant, (catalogue) => findProblemsIn(document.workflow, catalogue, allow));
  if (problems.some(isError) && wasPublishedBy((await packages.readAny(tenant, packageId)).pack, version, ask))
    return { ...published, repeated: true };
  throwOnErrors(problems);
  const entry: WorkflowPackageVersionEntry = {
    id: versionId,
    version,
    at: store.now(),
    by: user,
    ...(request.changelog !== undefined && { changelog: request.changelog }),
    ...(ask !== null && { ask: ask.searchTerm }),
  };
  const source = { workflowId, revision: document.revision };
  const body: WorkflowPackageVersionDocument = { ...entry, workflow: document.workflow, source };
  const versionPut = {
    collection: workflowPackageVersionCollection,
    name: `${packageId}/${version}`,
    rev: 0,
    body: JSON.stringify(body),
  };
  const { repeated } = await retryOnConflict(workflowPackageLimits.attemptsMax, async () => {
    const { pack: before, rev } = await packages.readAny(tenant, packageId);
    checkPublishAccess(caller.identity, before, request.packageId);
    const pack = packageWithVersion(before, { id: packageId, request, document, version: entry, identity: caller.identity });
    const puts = [packagePut(pack, rev), versionPut];
    return packages
      .write(caller, { action: "workflow-package.publish", target: packageId, puts, ask })
      .catch((problem: unknown) => {
        if (!isConflict(problem)) throw problem;
        // The engine names the first conflict; if the package has changed, the version may exist as well.
        const exists = problem.details?.["collection"] === workflowPackageVersionCollection || hasVersion(before, version);
        throw exists ? versionExists(packageId, version) : problem;
      });
  });
  return { ...published, repeated };
}

/** A package that is named must exist, and only its owner may publish into it. */
function checkPublishAccess(identity: CallerIdentity, pack: WorkflowPackageDocument | null, named: string | undefined): void {
  if (pack === null) {
    if (named !== undefined) throw packageNotFound(named);
  } else if (!ownsPackage(identity, pack)) throw canSeePackage(identity, pack) ? notOwnerFault(pack) : packageNotFound(pack.id);
}

/** Whether this key published the version before, when the catalogue or the draft was another. */
const wasPublishedBy = (pack: WorkflowPackageDocument | null, version: string, ask: WorkflowIdempotencyKey | null): boolean =>
  ask !== null && (pack?.versions.some((one) => one.version === version && one.ask === ask.searchTerm) ?? false);

export async function deleteWorkflowPackage({ store, packages }: WorkflowServices, caller: Caller, id: string): Promise<void> {
  await retryOnConflict(workflowPackageLimits.attemptsMax, async () => {
    const { pack, rev } = await packages.find(caller.identity, id);
    if (!ownsPackage(caller.identity, pack)) throw notOwnerFault(pack);
    const puts = [packagePut({ ...pack, deletedAt: store.now() }, rev)];
    return packages.write(caller, { action: "workflow-package.delete", target: pack.id, puts, ask: null });
  });
}

/** Creates a workflow of the caller's own from a version of a package. */
export async function cloneWorkflowPackage(
  { store, packages, catalogues, environment }: WorkflowServices,
  caller: Caller,
  packageId: string,
  request: Exclude<ReturnType<typeof readWorkflowCloneRequest>, Fault>,
  ask: WorkflowIdempotencyKey | null,
): Promise<WrittenWorkflow> {
  const { tenant, user } = caller.identity;
  const { pack } = await packages.find(caller.identity, packageId);
  const { version, workflow } = await packages.readVersion(tenant, pack.id, chooseVersion(pack, request));
  const workflowId = uuidFromText(`clone ${tenant} ${user} ${ask?.searchTerm ?? environment.ids.next()}`);
  const allow = { allowUnknown: request.allowUnknown ?? false };
  const problems = await findProblems(catalogues, tenant, (catalogue) => checkPackages(workflow, catalogue, allow));
  const before = problems.some(isError) ? revisionMadeBy((await store.readAny(tenant, workflowId)).document, ask) : null;
  if (before !== null) return { workflowId, revision: before, repeated: true };
  throwOnErrors(problems);
  const clone = withNewId(workflow, workflowId);
  const named = { ...clone, metadata: { ...clone.metadata, name: request.workflowName ?? workflow.metadata.name } };
  const document = { ...newWorkflowDocument(caller, store.now(), named, ask), preview: pack.preview };
  const step = { document, data: { package: pack.id, version } };
  const { repeated } = await store.write(caller, 0, step, { action: "workflow.clone", ask });
  return { workflowId, revision: document.revision, repeated };
}

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
