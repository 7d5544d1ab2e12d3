// `astra nodes search|show`: the node types of the packages that workers have announced.

import { type CatalogNode, closestMatch, omitUndefined, type Worker } from "@astraflow/protocol";
import type { Client } from "../api/api-client.ts";
import { type CommandContext, printItem, printPage, type TextInput } from "../api/command-context.ts";
import { type PageFlags, readListPage, readPages } from "../lookup/pages.ts";
import { CliFailure, type ExitCode, exitCodes, notFoundFailure, usageFailure } from "../output/cli-failure.ts";
import { stripControlCharacters } from "../output/terminal.ts";
import { createExampleNode, renderNodeType, versionOf } from "./node-view.ts";

type SearchInput = PageFlags & TextInput<never, "package"> & { readonly text?: readonly string[] };

export async function searchNodes(
  context: CommandContext,
  { text = [], package: packageName, ...paging }: SearchInput,
): Promise<ExitCode> {
  const query = omitUndefined({ q: text.join(" ") || undefined, package: packageName });
  const page = await readListPage(paging, (request) => context.client.searchNodes({ ...query, ...request }));
  return printPage<CatalogNode>(context, page, {
    id: ({ type }) => type,
    columns: [
      { header: "TYPE", value: ({ type }) => type, isKept: true },
      { header: "PACKAGE", value: (node) => `${node.packageName}@${versionOf(node)}`, isKept: true },
      { header: "ABOUT", value: ({ label, description }) => description ?? label, kind: "text" },
      { header: "ROLE", value: ({ role }) => role ?? "", isWide: true },
      { header: "CATEGORY", value: ({ category }) => category ?? "", isWide: true },
      { header: "VERSIONS", value: ({ versions }) => versions.map(({ version }) => version).join(" "), isWide: true },
    ],
    emptyMessage:
      Object.keys(query).length > 0
        ? "No node type matches. Show all with: astra nodes search"
        : "No worker has announced a package yet. Start one with: astra worker --packages-dir FOLDER",
  });
}

const workersMax = 1_000;

export async function showNode(
  context: CommandContext,
  { type, package: packageName, version }: TextInput<"type", "package" | "version">,
): Promise<ExitCode> {
  const { client } = context;
  const node = await findNodeType(type, packageName, client);
  const shown = version ?? versionOf(node);
  const template = node.versions.find((one) => one.version === shown)?.template;
  if (template === undefined) {
    const versions = node.versions.map((one) => one.version).join(", ");
    throw new CliFailure(exitCodes.notFound, {
      error: "E.NOT_FOUND",
      message: `Package ${node.packageName} has no ${type} in version ${stripControlCharacters(shown)}; it has ${versions}.`,
    });
  }
  const listQuery = { limit: 200, packageName: node.packageName, packageVersion: shown };
  const { items } = await readPages((cursor) => client.listWorkers({ ...listQuery, cursor }), workersMax);
  const workers = items.filter((worker: Worker) => worker.connected === true).map(({ id }) => id);
  const example = createExampleNode(node, shown, template);
  const body = { type, packageName: node.packageName, version: shown, template, workers, example };
  return printItem(context, body, () => renderNodeType(node, shown, template, workers, example));
}

/** By its exact type; one of several packages only if it is named. */
async function findNodeType(type: string, packageName: string | undefined, client: Client): Promise<CatalogNode> {
  const query = omitUndefined({ package: packageName });
  const found = await readPages((cursor) => client.searchNodes({ ...query, limit: 200, cursor }), Number.POSITIVE_INFINITY);
  const own = found.items.filter((node) => node.type === type);
  const [first, second] = own;
  if (first === undefined) {
    const types = found.items.map((node) => node.type);
    throw notFoundFailure(
      "node type",
      type,
      closestMatch(type, types),
      `astra nodes search ${type.split(/[.\s]/)[0] ?? ""}`.trim(),
    );
  }
  if (second === undefined) return first;
  const packages = own.map((node) => node.packageName);
  throw usageFailure(
    `Several packages have ${stripControlCharacters(type)}: ${packages.join(", ")}.`,
    `astra nodes show ${type} --package ${first.packageName}`,
  );
}
