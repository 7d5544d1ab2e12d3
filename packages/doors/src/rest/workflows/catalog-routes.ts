// The routes about node packages and the catalogue of nodes, read from the manifests that are known.

import { fault, limits } from "@astraflow/protocol";
import {
  type CatalogueCache,
  invalidCursor,
  nodeTypeKey,
  presentNodeType,
  presentPackage,
  searchNodeTypes,
} from "@astraflow/services";
import { type RouteHandler, readPageLimit } from "../requests/rest-call.ts";

export interface CatalogRoutesOptions {
  readonly catalogues: CatalogueCache;
}

const catalogLimits = {
  /** A search without a limit answers all there is, up to so many node types: editors of the field know no pages. */
  nodesMax: 2_000,
  /** An answer ends behind the node type that crosses this. */
  charsMax: 8 * 1024 * 1024,
} as const;

type CatalogRoutes = "listPackages" | "getPackage" | "searchNodes";

export function catalogHandlers({ catalogues }: CatalogRoutesOptions): Record<CatalogRoutes, RouteHandler> {
  return {
    async listPackages(call) {
      const limit = readPageLimit(call.query);
      const catalogue = await catalogues.current(call.identity.tenant);
      const { items, nextCursor } = pageAfterCursor(catalogue.packages, call.query["cursor"], limit, (one) => one.name);
      return { body: { items: items.map((one) => presentPackage(catalogue, one)), nextCursor, asOf: catalogue.asOf } };
    },

    async getPackage(call) {
      const name = call.params["packageName"] ?? "";
      const catalogue = await catalogues.current(call.identity.tenant);
      const known = catalogue.packages.find((one) => one.name === name);
      if (known === undefined) throw fault("E.NOT_FOUND", `there is no package ${name.slice(0, 100)}`);
      const version = call.query["version"] ?? known.versions[0] ?? "";
      const manifest = catalogue.manifest(name, version);
      if (manifest === null)
        throw fault(
          "E.NOT_FOUND",
          `package ${name} has no version ${version.slice(0, 100)}; it has ${known.versions.slice(0, 20).join(", ")}`,
        );
      return { body: { name, version, manifest, availableVersions: known.versions, asOf: catalogue.asOf } };
    },

    async searchNodes(call) {
      const { q = "", package: packageName, cursor } = call.query;
      const limit = call.query["limit"] === undefined ? catalogLimits.nodesMax : readPageLimit(call.query);
      const catalogue = await catalogues.current(call.identity.tenant);
      const words =
        q.trim() === "*"
          ? []
          : q
              .toLowerCase()
              .split(/\s+/)
              .filter((word) => word !== "");
      const nodes = searchNodeTypes(catalogue, packageName, words);
      const page = pageAfterCursor(nodes, cursor, limit, nodeTypeKey);
      const items = page.items.map(presentNodeType);
      const fitting = countFitting(items, catalogLimits.charsMax);
      const last = page.items[fitting - 1];
      const nextCursor = fitting === items.length || last === undefined ? page.nextCursor : encodeKeyCursor(nodeTypeKey(last));
      return { body: { items: items.slice(0, fitting), nextCursor, asOf: catalogue.asOf } };
    },
  };
}

/** The part of a list in order behind the last key of the page before. */
function pageAfterCursor<T>(all: readonly T[], cursor: string | undefined, limit: number, keyIn: (item: T) => string) {
  const after = cursor === undefined ? null : Buffer.from(cursor, "base64url").toString("utf8");
  if (
    after !== null &&
    (after === "" || after.length > limits.idCharsMax || Buffer.from(after, "utf8").toString("base64url") !== cursor)
  )
    throw invalidCursor();
  const rest = after === null ? all : all.filter((item) => keyIn(item) > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  const nextCursor = rest.length > items.length && last !== undefined ? encodeKeyCursor(keyIn(last)) : null;
  return { items, nextCursor };
}

const encodeKeyCursor = (key: string): string => Buffer.from(key, "utf8").toString("base64url");

/** How many of the first, with the one that crosses the bound, so that a page is never empty. */
function countFitting(items: readonly object[], charsMax: number): number {
  let chars = 0;
  const crossing = items.findIndex((item) => {
    chars += JSON.stringify(item).length;
    return chars > charsMax;
  });
  return crossing < 0 ? items.length : crossing + 1;
}
