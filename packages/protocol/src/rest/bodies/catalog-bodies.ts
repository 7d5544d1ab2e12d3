// Bodies of the REST API about node packages and the catalogue of nodes that workflows are made of.

import Type, { type Static } from "typebox";
import { ManifestSchema } from "../../definitions/manifest.ts";
import { nodeRoles, nodeStatuses } from "../../definitions/node-ui.ts";
import { anyJson, idString, listOf, nameString, oneOf, optional, textString } from "../../schema/field-types.ts";
import { asOfPosition, pageAsOf } from "./body-parts.ts";

export const PackageSummarySchema = Type.Object({
  name: idString(),
  versions: Type.Array(idString(), { description: "Newest first." }),
  description: optional(textString()),
  latestVersion: optional(idString()),
  defaultVersion: optional(idString("The newest that is no pre-release.")),
});
export type PackageSummary = Static<typeof PackageSummarySchema>;
export const PackageListSchema = pageAsOf(PackageSummarySchema);

export const PackageDetailSchema = Type.Object({
  name: idString(),
  version: idString(),
  manifest: ManifestSchema,
  availableVersions: optional(listOf(idString())),
  asOf: asOfPosition(),
});
export type PackageDetail = Static<typeof PackageDetailSchema>;

/** A port with the type that its binding leads to in the node's schema. */
export const CatalogPortSchema = Type.Object({
  key: idString(),
  label: nameString(),
  path: Type.String({ description: "The binding's path." }),
  type: Type.String({ description: "JSON type, several joined by |, or any." }),
  isRequired: optional(Type.Boolean()),
  default: optional(anyJson()),
});
export type CatalogPort = Static<typeof CatalogPortSchema>;

export const CatalogNodeSchema = Type.Object({
  type: idString(),
  label: nameString(),
  packageName: idString(),
  versions: listOf(
    Type.Object({
      version: idString(),
      status: optional(oneOf(nodeStatuses)),
      template: optional(ManifestSchema.properties.nodes.items),
      inputs: optional(listOf(CatalogPortSchema)),
      outputs: optional(listOf(CatalogPortSchema)),
    }),
  ),
  description: optional(textString()),
  role: optional(oneOf(nodeRoles)),
  category: optional(nameString()),
  tags: optional(listOf(nameString())),
  status: optional(oneOf(nodeStatuses)),
  defaultVersion: optional(idString()),
  latestVersion: optional(idString()),
});
export type CatalogNode = Static<typeof CatalogNodeSchema>;
export const CatalogNodeListSchema = pageAsOf(CatalogNodeSchema);
