// Bodies of the REST API about node packages and the catalogue of nodes that workflows are made of.

import Type, { type Static } from "typebox";
import { ManifestSchema } from "./manifest.ts";
import { nodeStatuses, roles } from "./node-face.ts";
import { asOf, pageAt } from "./rest-workflows.ts";
import { id, json, list, name, oneOf, optional, text } from "./words.ts";

export const PackageSummarySchema = Type.Object({
  name: id(),
  versions: Type.Array(id(), { description: "Newest first." }),
  description: optional(text()),
  latestVersion: optional(id()),
  defaultVersion: optional(id("The newest that is no pre-release.")),
});
export type PackageSummary = Static<typeof PackageSummarySchema>;
export const PackageListSchema = pageAt(PackageSummarySchema);

export const PackageDetailSchema = Type.Object({
  name: id(),
  version: id(),
  manifest: ManifestSchema,
  availableVersions: optional(list(id())),
  asOf: asOf(),
});
export type PackageDetail = Static<typeof PackageDetailSchema>;

/** A port with the type that its binding leads to in the node's schema. */
export const CatalogPortSchema = Type.Object({
  key: id(),
  label: name(),
  path: Type.String({ description: "The binding's path." }),
  type: Type.String({ description: "JSON type, several joined by |, or any." }),
  isRequired: optional(Type.Boolean()),
  default: optional(json()),
});
export type CatalogPort = Static<typeof CatalogPortSchema>;

export const CatalogNodeSchema = Type.Object({
  type: id(),
  label: name(),
  packageName: id(),
  versions: list(
    Type.Object({
      version: id(),
      status: optional(oneOf(nodeStatuses)),
      template: optional(ManifestSchema.properties.nodes.items),
      inputs: optional(list(CatalogPortSchema)),
      outputs: optional(list(CatalogPortSchema)),
    }),
  ),
  description: optional(text()),
  role: optional(oneOf(roles)),
  category: optional(name()),
  tags: optional(list(name())),
  status: optional(oneOf(nodeStatuses)),
  defaultVersion: optional(id()),
  latestVersion: optional(id()),
});
export type CatalogNode = Static<typeof CatalogNodeSchema>;
export const CatalogNodeListSchema = pageAt(CatalogNodeSchema);

/** By the names they have in the OpenAPI document. */
export const catalogSchemas = {
  PackageSummary: PackageSummarySchema,
  PackageList: PackageListSchema,
  PackageDetail: PackageDetailSchema,
  CatalogPort: CatalogPortSchema,
  CatalogNode: CatalogNodeSchema,
  CatalogNodeList: CatalogNodeListSchema,
} as const;
