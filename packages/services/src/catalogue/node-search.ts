// Searching the catalogue for node types, and packages and node types as the API shows them.

import { compareVersions } from "@astraflow/graph";
import type { CatalogNode, Manifest, ManifestNode, PackageSummary } from "@astraflow/protocol";
import type { Catalogue, CataloguePackage } from "./catalogue.ts";
import { portTypesOf } from "./port-types.ts";

/** So many of the newest versions of a node type are shown in full, older ones by name. */
const templatesMax = 20;

const isPreRelease = (version: string): boolean => version.split("+")[0]?.includes("-") ?? false;
const defaultVersionOf = (versions: readonly string[]): string | undefined =>
  versions.find((one) => !isPreRelease(one)) ?? versions[0];

export function presentPackage(catalogue: Catalogue, { name, versions }: CataloguePackage): PackageSummary {
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
export interface CatalogueNodeType {
  readonly packageName: string;
  readonly type: string;
  readonly versions: readonly { readonly version: string; readonly node: ManifestNode }[];
}

/** Package and type in one, in an order that pages can rely on. */
export const nodeTypeKey = (node: CatalogueNodeType): string => `${node.packageName} ${node.type}`;

/** Node types of a package, or of all, in which every word occurs. */
export const searchNodeTypes = (
  catalogue: Catalogue,
  packageName: string | undefined,
  words: readonly string[],
): CatalogueNodeType[] => listNodeTypes(catalogue, packageName).filter((node) => matchesWords(node, words));

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

/** Whether every word occurs in the texts of the newest version. */
function matchesWords({ packageName, type, versions }: CatalogueNodeType, words: readonly string[]): boolean {
  const node = versions[0]?.node;
  const text = [packageName, type, node?.label, node?.category, node?.description, ...(node?.tags ?? [])].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

export function presentNodeType({ packageName, type, versions }: CatalogueNodeType): CatalogNode {
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
      ...(index < templatesMax && { template: node, ...portTypesOf(node) }),
    })),
    ...(newest?.node.description !== undefined && { description: newest.node.description }),
    ...(newest !== undefined && { role: newest.node.role, category: newest.node.category, status: newest.node.status }),
    ...(newest?.node.tags !== undefined && { tags: newest.node.tags }),
    ...(standard !== undefined && { defaultVersion: standard }),
    ...(names[0] !== undefined && { latestVersion: names[0] }),
  };
}
