// Bodies of the REST API about node packages and the catalogue of nodes that workflows are made of.

import type { Static } from "typebox";
import { ManifestSchema } from "../../definitions/manifest.ts";
import { nodeRoles, nodeStatuses } from "../../definitions/node-ui.ts";
import * as t from "../../schema/field-types.ts";
import { asOfPosition, pageAsOf } from "./body-parts.ts";

export const ManifestHoldersSchema = t.object({
  manifest: t.id("Digest of the manifest."),
  workers: t.list(t.name("Name of a worker that announced it."), 20),
  workerCount: t.integer(0, "All workers that announced it."),
});
export type ManifestHolders = Static<typeof ManifestHoldersSchema>;

/** Present where workers announced different manifests of one version: who has which. */
const manifestConflict = t.optional(t.list(ManifestHoldersSchema));

export const PackageSummarySchema = t.object({
  name: t.id(),
  versions: t.array(t.id(), { description: "Newest first." }),
  description: t.optional(t.text()),
  latestVersion: t.optional(t.id()),
  defaultVersion: t.optional(t.id("The newest that is no pre-release.")),
});
export type PackageSummary = Static<typeof PackageSummarySchema>;
export const PackageListSchema = pageAsOf(PackageSummarySchema);

export const PackageDetailSchema = t.object({
  name: t.id(),
  version: t.id(),
  manifest: ManifestSchema,
  digest: t.optional(t.id("Digest of the manifest.")),
  manifestConflict,
  availableVersions: t.optional(t.list(t.id())),
  asOf: asOfPosition(),
});
export type PackageDetail = Static<typeof PackageDetailSchema>;

/** A port with the type that its binding leads to in the node's schema. */
export const CatalogPortSchema = t.object({
  key: t.id(),
  label: t.name(),
  path: t.string({ description: "The binding's path." }),
  type: t.string({ description: "JSON type, several joined by |, or any." }),
  isRequired: t.optional(t.boolean()),
  default: t.optional(t.anyJson()),
});
export type CatalogPort = Static<typeof CatalogPortSchema>;

export const CatalogNodeSchema = t.object({
  type: t.id(),
  label: t.name(),
  packageName: t.id(),
  versions: t.objectList({
    version: t.id(),
    status: t.optional(t.oneOf(nodeStatuses)),
    manifestConflict,
    template: t.optional(ManifestSchema.properties.nodes.items),
    inputs: t.optional(t.list(CatalogPortSchema)),
    outputs: t.optional(t.list(CatalogPortSchema)),
  }),
  description: t.optional(t.text()),
  role: t.optional(t.oneOf(nodeRoles)),
  category: t.optional(t.name()),
  tags: t.optional(t.list(t.name())),
  status: t.optional(t.oneOf(nodeStatuses)),
  defaultVersion: t.optional(t.id()),
  latestVersion: t.optional(t.id()),
});
export type CatalogNode = Static<typeof CatalogNodeSchema>;
export const CatalogNodeListSchema = pageAsOf(CatalogNodeSchema);
