/**
 * The inside of each package: folders must not import each other in a cycle (type imports included) and must stay small, and a type
 * name belongs to one package. Imports between packages are for layers.ts.
 */
import { posix } from "node:path";
import { isTestFile, listFolders, listSources, readText, reportProblems, repositoryRoot } from "../repository-files.ts";
import { readImports } from "./imports.ts";
import { type Token, tokenize } from "./tokens.ts";

/** In a larger folder a reader has to search; in a smaller one a look at the names is enough. */
const folderFilesMax = 20;

interface Source {
  path: string;
  folder: string;
  tokens: Token[];
}

/** Which folder imports which, with the first file that does. */
type FolderGraph = Map<string, Map<string, string>>;

/** Every problem below a root, one sentence each. */
export function checkFolders(root: string): string[] {
  const packages = [...listFolders(root, "packages"), ...listFolders(root, "apps")].map((folder) => ({
    folder,
    sources: readSources(root, `${folder}/src`),
  }));
  return [
    ...packages.flatMap(({ sources }) => findFolderCycles(sources)),
    ...findFolderCycles(readSources(root, "scripts")),
    ...findCrowdedFolders(listSources(root)),
    ...findSharedTypeNames(packages),
  ];
}

function readSources(root: string, folder: string): Source[] {
  return listSources(root, folder)
    .filter((path) => !isTestFile(path))
    .map((path) => ({ path, folder: posix.dirname(path), tokens: tokenize(readText(root, path)) }));
}

/** Each group of folders that import each other, with the imports that do. */
function findFolderCycles(sources: readonly Source[]): string[] {
  const graph = readFolderGraph(sources);
  return findCycles(graph).map((cycle) => {
    const imports = cycle.flatMap((from) =>
      [...(graph.get(from) ?? [])]
        .filter(([to]) => cycle.includes(to))
        .map(([to, file]) => `${from} -> ${to} (${posix.basename(file)})`),
    );
    return `these folders import each other in a cycle: ${imports.join(", ")}`;
  });
}

function readFolderGraph(sources: readonly Source[]): FolderGraph {
  const graph: FolderGraph = new Map();
  for (const { path, folder, tokens } of sources) {
    // The entry point of a package re-exports from all of its folders.
    if (/\/src\/(index|testing)\.ts$/.test(path)) continue;
    for (const { specifier } of readImports(tokens)) {
      if (!specifier.startsWith(".")) continue;
      const target = posix.dirname(posix.normalize(posix.join(folder, specifier)));
      if (target === folder || isTestFile(`${target}/x.ts`)) continue;
      const imports = graph.get(folder) ?? new Map<string, string>();
      if (!imports.has(target)) imports.set(target, path);
      graph.set(folder, imports);
    }
  }
  return graph;
}

/** The strongly connected groups of more than one folder (Tarjan's algorithm). */
function findCycles(graph: FolderGraph): string[][] {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const cycles: string[][] = [];
  const visit = (folder: string): void => {
    order.set(folder, order.size);
    lowest.set(folder, order.get(folder) as number);
    stack.push(folder);
    for (const next of graph.get(folder)?.keys() ?? []) {
      if (!order.has(next)) visit(next);
      // A folder that is no longer on the stack belongs to a group that is complete.
      if (stack.includes(next)) lowest.set(folder, Math.min(lowest.get(folder) as number, lowest.get(next) as number));
    }
    if (lowest.get(folder) !== order.get(folder)) return;
    const group = stack.splice(stack.indexOf(folder));
    if (group.length > 1) cycles.push(group.sort());
  };
  for (const folder of graph.keys()) if (!order.has(folder)) visit(folder);
  return cycles;
}

/** Folders with too many sources. Unit tests beside their source do not count; files in test folders do. */
function findCrowdedFolders(paths: readonly string[]): string[] {
  const counts = new Map<string, number>();
  for (const path of paths) {
    if (/^(packages|apps)\//.test(path) && /\.test\.tsx?$/.test(path)) continue;
    const folder = posix.dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  return [...counts]
    .filter(([, count]) => count > folderFilesMax)
    .map(
      ([folder, count]) =>
        `${folder}: has ${count} files, more than ${folderFilesMax}; group them in folders by what they are about`,
    );
}

/** Type names that two packages export: a reader would take one for the other. */
function findSharedTypeNames(packages: readonly { folder: string; sources: readonly Source[] }[]): string[] {
  const places = new Map<string, Map<string, string>>();
  for (const { folder, sources } of packages)
    for (const { path, tokens } of sources)
      for (const name of readExportedTypes(tokens)) {
        const files = places.get(name) ?? new Map<string, string>();
        if (!files.has(folder)) files.set(folder, path);
        places.set(name, files);
      }
  return [...places]
    .filter(([, files]) => files.size > 1)
    .map(
      ([name, files]) =>
        `type ${name} is exported by ${[...files.values()].sort().join(" and ")}; a type name belongs to one package`,
    );
}

function readExportedTypes(tokens: readonly Token[]): string[] {
  return tokens.flatMap((token, at) => {
    if (token.kind !== "word" || token.text !== "export") return [];
    const from = tokens[at + 1]?.text === "abstract" || tokens[at + 1]?.text === "declare" ? at + 2 : at + 1;
    const keyword = tokens[from]?.text ?? "";
    const name = tokens[from + 1];
    return ["interface", "type", "class", "enum"].includes(keyword) && name?.kind === "word" ? [name.text] : [];
  });
}

if (import.meta.main) reportProblems("folders", checkFolders(repositoryRoot));
