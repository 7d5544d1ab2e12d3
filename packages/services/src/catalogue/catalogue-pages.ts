// Pages of packages and of node types, and one package, out of the manifests that are known.

import { fault, limits } from "@astraflow/protocol";
import { notFound } from "../documents/documents.ts";
import { encodeCursor, invalidCursor } from "../documents/page-cursors.ts";
import type { CatalogueCache } from "./catalogue.ts";
import { nodeTypeKey, presentNodeType, presentPackage, searchNodeTypes } from "./node-search.ts";

const catalogLimits = {
  /** A search without a limit answers all there is, up to so many node types: editors of the field know no pages. */
  nodesMax: 2_000,
  /** An answer ends behind the node type that crosses this. */
  charsMax: 8 * 1024 * 1024,
} as const;

export interface CataloguePage {
  readonly cursor: string | undefined;
  readonly limit: number;
}

export async function listPackages(catalogues: CatalogueCache, tenant: string, page: CataloguePage) {
  const catalogue = await catalogues.current(tenant);
  const { items, nextCursor } = pageAfterCursor(catalogue.packages, page, ({ name }) => name);
  return { items: items.map((one) => presentPackage(catalogue, one)), nextCursor, asOf: catalogue.asOf };
}

/** The manifest of one version, the newest by default. */
export async function getPackage(catalogues: CatalogueCache, tenant: string, name: string, wanted: string | undefined) {
  const catalogue = await catalogues.current(tenant);
  const known = catalogue.packages.find((one) => one.name === name);
  if (known === undefined) throw notFound("package", name);
  const version = wanted ?? known.versions[0] ?? "";
  const manifest = catalogue.manifest(name, version);
  const versions = known.versions.slice(0, 20).join(", ");
  if (manifest === null)
    throw fault("E.NOT_FOUND", `package ${name} has no version ${version.slice(0, 100)}; it has ${versions}`);
  return { name, version, manifest, availableVersions: known.versions, asOf: catalogue.asOf };
}

export interface NodeSearch {
  /** Words that must all occur; `*` or nothing matches everything. */
  readonly q?: string | undefined;
  readonly packageName?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

export async function searchNodes(catalogues: CatalogueCache, tenant: string, search: NodeSearch) {
  const { q = "", packageName, cursor, limit = catalogLimits.nodesMax } = search;
  const catalogue = await catalogues.current(tenant);
  const words = q.trim() === "*" ? [] : q.toLowerCase().split(/\s+/).filter(Boolean);
  const page = pageAfterCursor(searchNodeTypes(catalogue, packageName, words), { cursor, limit }, nodeTypeKey);
  const items = page.items.map(presentNodeType);
  const fitting = countFitting(items);
  const last = page.items[fitting - 1];
  const nextCursor = fitting === items.length || last === undefined ? page.nextCursor : encodeCursor(nodeTypeKey(last));
  return { items: items.slice(0, fitting), nextCursor, asOf: catalogue.asOf };
}

/** The part of a list in order behind the last key of the page before. */
function pageAfterCursor<T>(all: readonly T[], { cursor, limit }: CataloguePage, keyOf: (item: T) => string) {
  const after = cursor === undefined ? null : Buffer.from(cursor, "base64url").toString("utf8");
  if (after !== null && (after === "" || after.length > limits.idCharsMax || encodeCursor(after) !== cursor))
    throw invalidCursor();
  const rest = after === null ? all : all.filter((item) => keyOf(item) > after);
  const items = rest.slice(0, limit);
  const last = items.at(-1);
  return { items, nextCursor: rest.length > items.length && last !== undefined ? encodeCursor(keyOf(last)) : null };
}

/** How many of the first, with the one that crosses the bound, so that a page is never empty. */
function countFitting(items: readonly object[]): number {
  let chars = 0;
  const crossing = items.findIndex((item) => {
    chars += JSON.stringify(item).length;
    return chars > catalogLimits.charsMax;
  });
  return crossing < 0 ? items.length : crossing + 1;
}
