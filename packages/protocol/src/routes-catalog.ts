// The routes about node packages and the catalogue of nodes.

import Type from "typebox";
import { CatalogNodeListSchema, PackageDetailSchema, PackageListSchema } from "./rest-catalog.ts";
import { paging, type Route, reading } from "./routes-base.ts";
import { id } from "./words.ts";

export const catalogRoutes = {
  listPackages: {
    method: "GET",
    path: "/api/v1/packages",
    summary: "Node packages whose manifests are known here, by name.",
    query: paging,
    response: PackageListSchema,
    status: 200,
    faults: reading,
    grant: "read",
  },
  getPackage: {
    method: "GET",
    path: "/api/v1/packages/{packageName}",
    summary: "The manifest of a package, of its newest version unless one is named.",
    params: { packageName: id() },
    query: { version: { schema: id() } },
    response: PackageDetailSchema,
    status: 200,
    faults: [...reading, "E.NOT_FOUND"],
    grant: "read",
  },
  searchNodes: {
    method: "GET",
    path: "/api/v1/catalog/nodes/search",
    summary: "Node types with their versions, templates and the types of their ports.",
    query: {
      ...paging,
      q: { schema: Type.String({ maxLength: 1_024 }), description: "Words that must all be found; empty or * for all." },
      package: { schema: id() },
    },
    response: CatalogNodeListSchema,
    status: 200,
    faults: reading,
  },
} as const satisfies Record<string, Route>;
