// The routes about workflows: drafts, published versions, files, packages for others to clone, and the catalogue of nodes they are made of.

import * as t from "../../schema/field-types.ts";
import { CatalogNodeListSchema, PackageDetailSchema, PackageListSchema } from "../bodies/catalog-bodies.ts";
import * as bodies from "../bodies/workflow-bodies.ts";
import {
  changeFaults,
  fullPageQuery,
  ifMatchHeaderOf,
  pagingQuery,
  type Route,
  readFaults,
  route,
  searchQuery,
  writeFaults,
} from "./route.ts";

const ifMatchHeader = ifMatchHeaderOf("draft");
const versionOrDraft = (description: string) => ({ schema: t.string({ pattern: "^([1-9][0-9]{0,8}|draft)$" }), description });

export const workflowRoutes = {
  listWorkflows: route("GET", "/api/v1/workflows", "read", {
    summary:
      "The caller's workflows, for an administrator all of them, changed last first. A page may be short where they are large.",
    query: {
      ...pagingQuery,
      search: { schema: t.name(), description: "Words of name, description, tags, owner and id." },
    },
    response: bodies.WorkflowListSchema,
  }),
  saveWorkflow: route("POST", "/api/v1/workflows", "edit", {
    summary: "Save a workflow as a draft: a new one, or a new revision of the one with this id, even if it was deleted.",
    request: bodies.WorkflowSaveRequestSchema,
    response: bodies.WorkflowRefSchema,
    status: 201,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.WORKFLOW.INVALID", "E.CONFLICT"],
  }),
  importWorkflow: route("POST", "/api/v1/workflows/import", "edit", {
    summary: "Take in a file with a workflow and its versions, under its own id or under a new one.",
    query: { ids: { schema: t.oneOf(["keep", "renew"]), default: "keep" } },
    request: bodies.WorkflowImportRequestSchema,
    response: bodies.WorkflowRefSchema,
    status: 201,
    faults: [...writeFaults, "E.REQUEST.MEDIA", "E.WORKFLOW.INVALID", "E.CONFLICT"],
  }),
  validateWorkflow: route("POST", "/api/v1/workflows/validate", "read", {
    summary: "What is wrong with a workflow, with node and field. Nothing is saved.",
    request: bodies.WorkflowCheckRequestSchema,
    response: bodies.WorkflowCheckSchema,
    faults: [...readFaults, "E.REQUEST.MEDIA", "E.REQUEST.TOO_LARGE"],
  }),
  getWorkflow: route("GET", "/api/v1/workflows/{workflowId}", "read", {
    summary: "A workflow as its draft has it, with the revision as ETag.",
    response: bodies.StoredWorkflowSchema,
  }),
  replaceWorkflow: route("PUT", "/api/v1/workflows/{workflowId}", "edit", {
    summary: "Replace the draft as a whole.",
    headers: ifMatchHeader,
    request: bodies.WorkflowSaveRequestSchema,
    response: bodies.WorkflowRefSchema,
    faults: [...changeFaults, "E.WORKFLOW.INVALID", "E.ETAG.STALE"],
  }),
  deleteWorkflow: route("DELETE", "/api/v1/workflows/{workflowId}", "edit", {
    summary: "Delete a workflow. Runs, versions and packages made of it stay; saving it again brings it back.",
    headers: ifMatchHeader,
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT", "E.ETAG.STALE"],
  }),
  getWorkflowPreview: route("GET", "/api/v1/workflows/{workflowId}/preview", "read", {
    summary: "The workflow's picture.",
    response: bodies.WorkflowPreviewSchema,
  }),
  putWorkflowPreview: route("PUT", "/api/v1/workflows/{workflowId}/preview", "edit", {
    summary: "Set or remove the workflow's picture; its revision stays.",
    request: bodies.WorkflowPreviewRequestSchema,
    response: bodies.WorkflowPreviewSchema,
  }),
  getDraft: route("GET", "/api/v1/workflows/{workflowId}/draft", "read", {
    summary: "The draft with its revision and what is wrong with it.",
    response: bodies.WorkflowDraftSchema,
  }),
  editDraft: route("PATCH", "/api/v1/workflows/{workflowId}/draft", "edit", {
    summary:
      "Save edits made on a revision. Where others have saved since, they are put on top; where both touched the same fields, 409 names the edits in between.",
    request: bodies.DraftEditRequestSchema,
    response: bodies.DraftEditedSchema,
    faults: [...changeFaults, "E.WORKFLOW.INVALID", "E.DRAFT.CONFLICT"],
  }),
  publishVersion: route("POST", "/api/v1/workflows/{workflowId}/versions", "edit", {
    summary: "Make the draft a version under the next number. A version never changes.",
    request: bodies.PublishVersionRequestSchema,
    isBodyOptional: true,
    response: bodies.PublishedVersionSchema,
    status: 201,
    faults: [...changeFaults, "E.WORKFLOW.INVALID", "E.ETAG.STALE"],
  }),
  listVersions: route("GET", "/api/v1/workflows/{workflowId}/versions", "read", {
    summary: "Published versions, newest first.",
    query: pagingQuery,
    response: bodies.WorkflowVersionListSchema,
  }),
  getVersion: route("GET", "/api/v1/workflows/{workflowId}/versions/{version}", "read", {
    summary: "A published version with its workflow.",
    response: bodies.WorkflowVersionDetailSchema,
  }),
  diffWorkflow: route("GET", "/api/v1/workflows/{workflowId}/diff", "read", {
    summary: "What changed between two versions, or a version and the draft: as edits, and as text.",
    query: { from: versionOrDraft("The newest version unless given."), to: versionOrDraft("The draft unless given.") },
    response: bodies.WorkflowDiffSchema,
  }),
  rollbackWorkflow: route("POST", "/api/v1/workflows/{workflowId}/rollback", "edit", {
    summary: "Make the draft what a version is, as a new revision.",
    request: bodies.RollbackRequestSchema,
    response: bodies.WorkflowRefSchema,
  }),
  exportWorkflow: route("GET", "/api/v1/workflows/{workflowId}/export", "read", {
    summary: "The workflow and its versions as one file, the newest that fit into what an import takes.",
    response: bodies.WorkflowFileSchema,
  }),
  publishWorkflow: route("POST", "/api/v1/workflows/{workflowId}/publish", "edit", {
    summary: "Publish the workflow as a version of a package: the one named, or the workflow's own.",
    request: bodies.WorkflowPublishRequestSchema,
    response: bodies.WorkflowPublishedSchema,
    status: 201,
    faults: [...changeFaults, "E.VERSION.EXISTS", "E.WORKFLOW.INVALID"],
  }),
  listWorkflowPackages: route("GET", "/api/v1/workflow-packages", "read", {
    summary: "Packages that are public or internal, and the caller's own, changed last first.",
    query: {
      ...pagingQuery,
      owner: { schema: t.id(), description: "A user's id, or me." },
      visibility: { schema: t.oneOf(bodies.visibilities) },
      search: { schema: t.name(), description: "Words of name, slug, summary, tags and owner." },
    },
    response: bodies.WorkflowPackageListSchema,
  }),
  getWorkflowPackage: route("GET", "/api/v1/workflow-packages/{packageId}", "read", {
    summary: "A package with its versions, newest first.",
    response: bodies.WorkflowPackageDetailSchema,
  }),
  deleteWorkflowPackage: route("DELETE", "/api/v1/workflow-packages/{packageId}", "edit", {
    summary: "Delete your own package. Clones of it stay; publishing to it restores it.",
    status: 204,
    faults: [...writeFaults, "E.NOT_FOUND", "E.CONFLICT"],
  }),
  listWorkflowPackageVersions: route("GET", "/api/v1/workflow-packages/{packageId}/versions", "read", {
    summary: "The versions of a package, newest first.",
    response: bodies.WorkflowPackageVersionListSchema,
  }),
  cloneWorkflowPackage: route("POST", "/api/v1/workflow-packages/{packageId}/clone", "edit", {
    summary: "Clone a version of a package into a workflow of your own; the newest version by default.",
    request: bodies.WorkflowCloneRequestSchema,
    isBodyOptional: true,
    response: bodies.WorkflowRefSchema,
    status: 201,
    faults: [...changeFaults, "E.WORKFLOW.INVALID"],
  }),
  listPackages: route("GET", "/api/v1/packages", "read", {
    summary: "Node packages whose manifests are known here, by name.",
    query: fullPageQuery,
    response: PackageListSchema,
  }),
  getPackage: route("GET", "/api/v1/packages/{packageName}", "read", {
    summary: "The manifest of a package, of its newest version unless one is named.",
    query: { version: { schema: t.id() } },
    response: PackageDetailSchema,
  }),
  searchNodes: route("GET", "/api/v1/catalog/nodes/search", "token", {
    summary: "Node types with their versions, templates and the types of their ports.",
    query: {
      ...pagingQuery,
      q: searchQuery("Words that must all be found; empty or * for all."),
      package: { schema: t.id() },
    },
    response: CatalogNodeListSchema,
  }),
} as const satisfies Record<string, Route>;
