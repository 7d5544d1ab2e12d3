// The manifests that workers bring, kept as documents so that the catalogue knows their nodes when the workers have gone. Whoever notes
// one waits for nothing: a worker joins whether or not the store takes its manifests. What is read from them is in catalogue.ts.

import { type DocPut, type DocRow, type Reader, wordsOf } from "@astraflow/engine";
import { canonicalJson } from "@astraflow/graph";
import { Fault, type Manifest, readManifest } from "@astraflow/protocol";
import type { ShownPackage } from "./handlers.ts";
import type { Link } from "./link.ts";
import type { Outside } from "./outside.ts";

export const packageCollection = "package";

/** What the document of a package's version holds. */
export interface PackageDoc {
  readonly manifest: Manifest;
  readonly digest: string;
}

export interface ManifestNotesOptions {
  readonly link: Link;
  readonly reader: Reader;
  /** Collision-resistant digest of a text. */
  readonly digest: (text: string) => string;
  readonly outside: Outside;
}

export interface ManifestNotes {
  /** Keeps what is new of them, some time later. Never throws. */
  noteManifests(tenant: string, shown: readonly ShownPackage[]): void;
  /** Resolves when all that was noted so far is kept, or refused and in the log. */
  settled(): Promise<void>;
}

const noteLimits = {
  /** Manifests in one write. */
  batchMax: 50,
  /** Manifests that wait; a fleet that joins at once mostly shows the same ones. */
  waitingMax: 2_000,
  /** Digests remembered, so that what is known costs no read. */
  knownMax: 20_000,
  /** Another scheduler may note the same at the same time. */
  triesMax: 3,
} as const;

interface Noted {
  readonly tenant: string;
  /** `<name>/<version>`, the document's name. */
  readonly name: string;
  readonly manifest: Manifest;
  readonly raw: string;
}

export function createManifestNotes({ link, reader, digest, outside }: ManifestNotesOptions): ManifestNotes {
  /** By tenant and document: digest of the text that was shown last and is kept. */
  const known = new Map<string, string>();
  const waiting: Noted[] = [];
  let working: Promise<void> | null = null;

  const remember = ({ tenant, name, raw }: Noted): void => {
    if (known.size >= noteLimits.knownMax) known.clear();
    known.set(`${tenant}/${name}`, raw);
  };

  const read = (tenant: string, shown: ShownPackage): Noted | null => {
    if (shown.manifest === undefined || shown.manifest === null) return null;
    const raw = digest(JSON.stringify(shown.manifest));
    const name = `${shown.name}/${shown.version}`;
    if (known.get(`${tenant}/${name}`) === raw) return null;
    const manifest = readManifest(shown.manifest);
    const isItsOwn = !(manifest instanceof Fault) && manifest.name === shown.name && manifest.version === shown.version;
    return isItsOwn ? { tenant, name, manifest, raw } : null;
  };

  const keep = async (tenant: string, batch: readonly Noted[]): Promise<void> => {
    const { items } = await reader.page({
      page: "doc",
      tenant,
      collection: packageCollection,
      names: batch.map((noted) => noted.name),
    });
    const sort = String(outside.clock.now()).padStart(15, "0");
    const puts = batch.flatMap((noted, index) => putOf(noted, items[index] ?? null, sort, digest));
    if (puts.length > 0) await link.ask({ type: "docs.write", tenant, by: "scheduler", puts });
    batch.forEach(remember);
  };

  const keepOrLog = async (tenant: string, batch: readonly Noted[]): Promise<void> => {
    for (let tries = 1; ; tries += 1)
      try {
        return await keep(tenant, batch);
      } catch (problem) {
        if (problem instanceof Fault && problem.code === "E.CONFLICT" && tries < noteLimits.triesMax) continue;
        // They come again with the next worker that shows them.
        const why = problem instanceof Error ? problem.message : String(problem);
        return outside.log({ level: "warn", event: "manifests.not_kept", tenant, packages: batch.map(({ name }) => name), why });
      }
  };

  const work = async (): Promise<void> => {
    for (let first = waiting[0]; first !== undefined; first = waiting[0]) {
      const { tenant } = first;
      // Each document once in a write; a repeat waits for the next one.
      const batch = new Map<string, Noted>();
      while (waiting[0]?.tenant === tenant && !batch.has(waiting[0].name) && batch.size < noteLimits.batchMax) {
        const noted = waiting.shift() as Noted;
        batch.set(noted.name, noted);
      }
      await keepOrLog(tenant, [...batch.values()]);
    }
    working = null;
  };

  return {
    noteManifests(tenant, shown) {
      for (const one of shown) {
        const noted = read(tenant, one);
        if (noted === null) continue;
        if (waiting.length >= noteLimits.waitingMax)
          return outside.log({ level: "warn", event: "manifests.too_many", tenant, waiting: waiting.length });
        waiting.push(noted);
      }
      // Never in the caller's own tick: it has a worker to answer.
      if (waiting.length > 0) working ??= Promise.resolve().then(work);
    },
    settled: async () => {
      while (working !== null) await working;
    },
  };
}

/** Nothing where the document says the same already. Who shows another manifest under a version replaces it: the newest word counts. */
function putOf(noted: Noted, before: DocRow | null, sort: string, digest: (text: string) => string): DocPut[] {
  const { name, manifest } = noted;
  const body: PackageDoc = { manifest, digest: digest(canonicalJson(manifest)) };
  if (before !== null && (JSON.parse(before.body) as PackageDoc).digest === body.digest) return [];
  const words = new Set(wordsOf([manifest.name, manifest.version, manifest.description].join(" ")));
  const terms = [...words].slice(0, 96).join(" ");
  return [{ collection: packageCollection, name, rev: before?.rev ?? 0, body: JSON.stringify(body), sort, terms }];
}
