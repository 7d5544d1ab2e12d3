// The routes about node packages and the catalogue of nodes.

import Type from "typebox";
import { idString } from "../../schema/field-types.ts";
import { CatalogNodeListSchema, PackageDetailSchema, PackageListSchema } from "../bodies/catalog-bodies.ts";
import { pagingQuery, type Route, readFaults, route } from "./route.ts";

export const catalogRoutes = {
  listPackages: route("GET", "/api/v1/packages", {
    summary: "Node packages whose manifests are known here, by name.",
    query: pagingQuery,
    response: PackageListSchema,
    faults: readFaults,
    grant: "read",
  }),
  getPackage: route("GET", "/api/v1/packages/{packageName}", {
    summary: "The manifest of a package, of its newest version unless one is named.",
    params: { packageName: idString() },
    query: { version: { schema: idString() } },
    response: PackageDetailSchema,
    faults: [...readFaults, "E.NOT_FOUND"],
    grant: "read",
  }),
  searchNodes: route("GET", "/api/v1/catalog/nodes/search", {
    summary: "Node types with their versions, templates and the types of their ports.",
    query: {
      ...pagingQuery,
      q: { schema: Type.String({ maxLength: 1_024 }), description: "Words that must all be found; empty or * for all." },
      package: { schema: idString() },
    },
    response: CatalogNodeListSchema,
    faults: readFaults,
  }),
} as const satisfies Record<string, Route>;
