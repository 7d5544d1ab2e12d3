// The routes about node packages and the catalogue of nodes, read from the manifests that are known.

import { compareVersions } from "@astraflow/graph";
import { type CatalogNode, fault, limits, type Manifest, type ManifestNode, type PackageSummary } from "@astraflow/protocol";
import { type Catalogue, type CatalogueCache, type CataloguePackage, portTypesOf } from "@astraflow/services";
import { type RouteHandler, readPageLimit } from "../requests/rest-call.ts";

export interface CatalogRoutesOptions {
  readonly catalogues: CatalogueCache;
}

const catalogLimits = {
  /** A search without a limit answers all there is, up to so many node types: editors of the field know no pages. */
  nodesMax: 2_000,
  /** An answer ends behind the node type that crosses this. */
  charsMax: 8 * 1024 * 1024,
  /** So many of the newest versions of a node type are shown in full, older ones by name. */
  templatesMax: 20,
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
      const nodes = listNodeTypes(catalogue, packageName).filter((node) => matchesWords(node, words));
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
    throw fault("E.REQUEST.INVALID", "query.cursor must be the nextCursor of a page before", { path: "query.cursor" });
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

const isPreRelease = (version: string): boolean => version.split("+")[0]?.includes("-") ?? false;
const defaultVersionOf = (versions: readonly string[]): string | undefined =>
  versions.find((one) => !isPreRelease(one)) ?? versions[0];

function presentPackage(catalogue: Catalogue, { name, versions }: CataloguePackage): PackageSummary {
  const latest = versions[0];
  const standard = defaultVersionOf(versions);
  const description = latest === undefined ? undefined : catalogue.manifest(name, latest)?.description;
  return {
    name,
    versions: [...versions],
    ...(description !== undefined && { description }),
    ...(latest !== undefined && { latestVersion: latest }),
    ...(standard !== undefined && { defaultVersion: standard }),
  };
}

/** A node type of a package in all its versions, newest first. */
interface CatalogueNodeType {
  readonly packageName: string;
  readonly type: string;
  readonly versions: readonly { readonly version: string; readonly node: ManifestNode }[];
}

/** Package and type in one, in an order that pages can rely on. */
const nodeTypeKey = (node: CatalogueNodeType): string => `${node.packageName} ${node.type}`;

function listNodeTypes(catalogue: Catalogue, packageName: string | undefined): CatalogueNodeType[] {
  const nodes = new Map<string, { packageName: string; type: string; versions: { version: string; node: ManifestNode }[] }>();
  for (const { name, versions } of catalogue.packages) {
    if (packageName !== undefined && name !== packageName) continue;
    for (const manifest of versions.flatMap((version) => catalogue.manifest(name, version) ?? [])) addNodes(manifest);
  }
  return [...nodes.values()].sort((a, b) => (nodeTypeKey(a) < nodeTypeKey(b) ? -1 : 1));

  function addNodes({ name, version, nodes: list }: Manifest): void {
    for (const node of list) {
      const key = `${name} ${node.type}`;
      const known = nodes.get(key) ?? { packageName: name, type: node.type, versions: [] };
      nodes.set(key, known);
      known.versions.push({ version, node });
      known.versions.sort((a, b) => compareVersions(b.version, a.version));
    }
  }
}

/** Every word somewhere in what the newest version says of itself. */
function matchesWords({ packageName, type, versions }: CatalogueNodeType, words: readonly string[]): boolean {
  const node = versions[0]?.node;
  const text = [packageName, type, node?.label, node?.category, node?.description, ...(node?.tags ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

function presentNodeType({ packageName, type, versions }: CatalogueNodeType): CatalogNode {
  const [newest] = versions;
  const names = versions.map(({ version }) => version);
  const standard = defaultVersionOf(names);
  return {
    type,
    label: newest?.node.label ?? type,
    packageName,
    versions: versions.map(({ version, node }, index) => ({
      version,
      status: node.status,
      ...(index < catalogLimits.templatesMax && { template: node, ...portTypesOf(node) }),
    })),
    ...(newest?.node.description !== undefined && { description: newest.node.description }),
    ...(newest !== undefined && { role: newest.node.role, category: newest.node.category, status: newest.node.status }),
    ...(newest?.node.tags !== undefined && { tags: newest.node.tags }),
    ...(standard !== undefined && { defaultVersion: standard }),
    ...(names[0] !== undefined && { latestVersion: names[0] }),
  };
}
