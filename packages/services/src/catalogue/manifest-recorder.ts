// The manifests that workers report: stored, so that the catalogue knows their nodes when the workers are gone, and read for what a worker can
// run. Nobody waits for the storing: a worker joins whether or not its manifests could be stored. catalogue.ts reads them.

import {
  type DocPut,
  type DocRow,
  type PackageDocument,
  packageCollection,
  searchWords,
  type WorkerDescription,
} from "@astraflow/engine";
import { errorMessage, Fault, type Manifest, readManifest } from "@astraflow/protocol";
import { sortKeyOf } from "../documents/derived-names.ts";
import { retryOnConflict } from "../documents/documents.ts";
import type { ServiceContext } from "../environment/service-environment.ts";
import { manifestDigest, type ReportedPackage } from "./manifest-digest.ts";

const recorderLimits = {
  /** Manifests in one write, and their characters: the stored ones are read and compared with them in one go. */
  batchMax: 50,
  batchCharsMax: 2 * 1024 * 1024,
  /** Characters of one report that are read at once; the rest is read later, one manifest at a time. */
  readAtOnceCharsMax: 1024 * 1024,
  /** Manifests that wait; a fleet that joins at once mostly shows the same ones. */
  waitingMax: 2_000,
  /** Digests remembered, so that what is known costs no read. */
  knownMax: 20_000,
  /** Another scheduler may note the same at the same time. */
  triesMax: 3,
  /** Manifests of one version besides the one announced last, and all their characters. */
  othersMax: 4,
  othersCharsMax: 4 * 1024 * 1024,
  /** A stored manifest that is announced again comes first again, but not more often than this: workers that differ may join in turn. */
  reorderMs: 60_000,
} as const;

interface ReportedManifest {
  readonly tenant: string;
  /** `<name>/<version>`, the document's name. */
  readonly name: string;
  readonly manifest: Manifest;
  readonly raw: string;
  readonly chars: number;
}

/** One that is read when its turn comes: the caller had sent enough that was read at once. */
interface UnreadManifest extends Pick<ReportedManifest, "tenant" | "name"> {
  readonly reported: ReportedPackage;
}

export class ManifestRecorder {
  readonly #context: ServiceContext;
  /** By tenant and document: digest of the text that was shown last and is kept. */
  readonly #recordedDigests = new Map<string, string>();
  readonly #queue: (ReportedManifest | UnreadManifest)[] = [];
  #writing: Promise<void> | null = null;

  constructor(context: ServiceContext) {
    this.#context = context;
  }

  /** Stores those that are new, some time later. Never throws. */
  recordManifests(tenant: string, reported: readonly ReportedPackage[]): void {
    const queue = this.#queue;
    let charsLeft: number = recorderLimits.readAtOnceCharsMax;
    for (const one of reported) {
      if (one.manifest === undefined || one.manifest === null) continue;
      const name = `${one.name}/${one.version}`;
      const manifest = charsLeft > 0 ? this.#parseReported(tenant, name, one) : { tenant, name, reported: one };
      if (typeof manifest === "number") {
        charsLeft -= manifest;
        continue;
      }
      if ("chars" in manifest) charsLeft -= manifest.chars;
      if (queue.length >= recorderLimits.waitingMax)
        return this.#context.environment.log({ level: "warn", event: "manifests.too_many", tenant, waiting: queue.length });
      queue.push(manifest);
    }
    // Not in the same tick: the caller has a worker to answer.
    if (queue.length > 0) this.#writing ??= Promise.resolve().then(() => this.#writeQueued());
  }

  /** Resolves when everything reported so far is stored, or failed and logged. */
  async whenIdle(): Promise<void> {
    while (this.#writing !== null) await this.#writing;
  }

  /** A number of characters: it is stored already, or it is no manifest of its package. */
  #parseReported(tenant: string, name: string, reported: ReportedPackage): ReportedManifest | number {
    const text = JSON.stringify(reported.manifest);
    const raw = this.#context.digest(text);
    if (this.#recordedDigests.get(`${tenant}/${name}`) === raw) return text.length;
    const manifest = readManifest(reported.manifest);
    const isItsOwn = !(manifest instanceof Fault) && manifest.name === reported.name && manifest.version === reported.version;
    return isItsOwn ? { tenant, name, manifest, raw, chars: text.length } : text.length;
  }

  async #writeQueued(): Promise<void> {
    const queue = this.#queue;
    for (let first = queue[0]; first !== undefined; first = queue[0]) {
      const { tenant } = first;
      // Each document once in a write; a repeat waits for the next one.
      const batch = new Map<string, ReportedManifest>();
      let charsLeft: number = recorderLimits.batchCharsMax;
      for (let next = queue[0]; next?.tenant === tenant; next = queue[0]) {
        if (batch.has(next.name) || batch.size >= recorderLimits.batchMax || charsLeft <= 0) break;
        queue.shift();
        const manifest = await this.#read(next);
        if (typeof manifest === "number") continue;
        batch.set(manifest.name, manifest);
        charsLeft -= manifest.chars;
      }
      if (batch.size > 0) await this.#writeWithRetry(tenant, [...batch.values()]);
      await this.#context.environment.yieldLoop?.();
    }
    this.#writing = null;
  }

  async #read(queued: ReportedManifest | UnreadManifest): Promise<ReportedManifest | number> {
    if (!("reported" in queued)) return queued;
    await this.#context.environment.yieldLoop?.();
    return this.#parseReported(queued.tenant, queued.name, queued.reported);
  }

  #writeWithRetry(tenant: string, batch: readonly ReportedManifest[]): Promise<void> {
    return retryOnConflict(recorderLimits.triesMax, () => this.#writeBatch(tenant, batch)).catch((problem: unknown) => {
      // They are reported again by the next worker that has them.
      const packages = batch.map(({ name }) => name);
      const why = errorMessage(problem);
      this.#context.environment.log({ level: "warn", event: "manifests.not_kept", tenant, packages, why });
    });
  }

  async #writeBatch(tenant: string, batch: readonly ReportedManifest[]): Promise<void> {
    const { engineClient, reader, environment } = this.#context;
    const names = batch.map(({ name }) => name);
    const { items } = await reader.page({ page: "doc", tenant, collection: packageCollection, names });
    const now = environment.clock.now();
    const changes = batch.map(({ manifest }, index) => planManifestPut(manifest, items[index] ?? null, now));
    const puts = changes.filter((change): change is DocPut => typeof change === "object");
    if (puts.length > 0) await engineClient.request({ type: "docs.write", tenant, by: "scheduler", puts });
    for (const [index, { name, raw }] of batch.entries()) {
      // It may come first later, so it is looked at again when it is announced again.
      if (changes[index] === "later") continue;
      if (this.#recordedDigests.size >= recorderLimits.knownMax) this.#recordedDigests.clear();
      this.#recordedDigests.set(`${tenant}/${name}`, raw);
    }
  }
}

/** The document with a manifest in front of those that are stored for the same version; `same`: it is in front, `later`: not yet again. */
export function planManifestPut(
  manifest: Manifest,
  before: DocRow | null,
  now: number,
  reorderMs: number = recorderLimits.reorderMs,
): DocPut | "same" | "later" {
  const stored = before === null ? null : (JSON.parse(before.body) as PackageDocument);
  const digest = manifestDigest(manifest);
  if (stored?.digest === digest) return "same";
  const isKnown = stored?.others?.some((one) => one.digest === digest) ?? false;
  if (before !== null && isKnown && now - before.at < reorderMs) return "later";
  const sort = sortKeyOf(now);
  const others = stored === null ? [] : otherManifests(stored, digest);
  const body: PackageDocument = { manifest, digest, ...(others.length > 0 && { others }) };
  const searchTerms = new Set(searchWords([manifest.name, manifest.version, manifest.description].join(" ")));
  const terms = [...searchTerms].slice(0, 96).join(" ");
  const name = `${manifest.name}/${manifest.version}`;
  return { collection: packageCollection, name, rev: before?.rev ?? 0, body: JSON.stringify(body), sort, terms };
}

/** Newest first, as many as there is room for. */
function otherManifests(
  { manifest, digest, others = [] }: PackageDocument,
  newest: string,
): NonNullable<PackageDocument["others"]> {
  const kept = [{ manifest, digest }, ...others].filter((one) => one.digest !== newest).slice(0, recorderLimits.othersMax);
  let chars = 0;
  return kept.filter((one) => (chars += JSON.stringify(one.manifest).length) <= recorderLimits.othersCharsMax);
}

type Handlers = NonNullable<WorkerDescription["handlers"]>;

const handlerLimits = {
  /** The worker's row is written with its heartbeats, so this must stay small. */
  bytesMax: 8 * 1024,
  capabilitiesMax: 16,
} as const;

/** As many as fit into the bound, in the order shown. A manifest that is none is left out: the package is listed all the same. */
export function readHandlers(reported: readonly ReportedPackage[]): Handlers {
  const handlers: Handlers[number][] = [];
  let bytes = 0;
  for (const { name, version, manifest: written } of reported) {
    const manifest = readManifest(written);
    if (manifest instanceof Fault) continue;
    const adapters = new Map(manifest.adapters.map((adapter) => [adapter.name, adapter]));
    for (const node of manifest.nodes) {
      const adapter = adapters.get(node.adapter);
      const runtime = adapter?.runtime ?? (manifest.node !== undefined && manifest.python === undefined ? "node" : "python");
      const capabilities = (adapter?.capabilities ?? []).slice(0, handlerLimits.capabilitiesMax);
      const handler = { package: name, version, runtime, nodeType: node.type, capabilities };
      bytes += Buffer.byteLength(JSON.stringify(handler)) + 1;
      if (bytes > handlerLimits.bytesMax) return handlers;
      handlers.push(handler);
    }
  }
  return handlers;
}
