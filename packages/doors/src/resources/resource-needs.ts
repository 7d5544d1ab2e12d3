// Which resources a package's version asks for, as the kept manifest says. Known at once for whatever was looked at before, so that a
// dispatch of a package that asks for nothing waits for nobody. What is granted for them is in resource-bindings.ts.

import { createHash } from "node:crypto";
import type { Reader } from "@astraflow/engine";
import type { ReportedPackage } from "../handlers.ts";
import { type PackageDoc, packageCollection } from "../manifests.ts";
import type { DoorEnvironment } from "../outside.ts";
import type { ResourceRequirement } from "./resource-bindings.ts";

export interface ResourceNeedsOptions {
  readonly reader: Reader;
  readonly environment: DoorEnvironment;
  /** Resolves when the manifests that were shown so far are kept. */
  readonly settled: () => Promise<void>;
}

export interface ResourceNeeds {
  /** Undefined: not read yet. An old answer counts, and is looked after behind the caller's back. */
  known(tenant: string, name: string, version: string): Needs | undefined;
  /** As of now, or of a second ago. */
  read(tenant: string, name: string, version: string): Promise<Needs>;
  /** A worker shows these: what they ask for is read before the first task of theirs is sent. Never throws. */
  note(tenant: string, reported: readonly ReportedPackage[]): void;
}

export type Needs = readonly ResourceRequirement[];

const needsLimits = {
  /** So long an answer is used without a look at the store. */
  freshMs: 1_000,
  /** Versions of packages of all tenants; beyond it all are read again. */
  knownMax: 20_000,
  /** Read ahead of their first task at the same time. */
  readingMax: 100,
} as const;

interface Entry {
  readonly needs: Needs;
  readonly readAt: number;
}

const nothing: Needs = [];

export function createResourceNeeds({ reader, environment, settled }: ResourceNeedsOptions): ResourceNeeds {
  const entries = new Map<string, Entry>();
  const reading = new Map<string, Promise<Needs>>();
  /** By package: a word for the requirements that a worker showed last, where it showed some. */
  const shownLast = new Map<string, string>();
  /** Packages whose manifest is still on its way into the store. */
  const unkept = new Set<string>();

  const look = async (key: string, tenant: string, document: string): Promise<Needs> => {
    for (;;) {
      const shown = shownLast.get(key);
      if (unkept.has(key)) await settled();
      const readAt = environment.clock.monotonic();
      const { items } = await reader.page({ page: "doc", tenant, collection: packageCollection, names: [document] });
      // Another manifest was shown meanwhile: what was read may be the one before it.
      if (shownLast.get(key) !== shown) continue;
      const doc = items[0] ?? null;
      const needs = doc === null ? nothing : (JSON.parse(doc.body) as PackageDoc).manifest.requirements.resources;
      unkept.delete(key);
      if (entries.size >= needsLimits.knownMax) entries.clear();
      entries.set(key, { needs, readAt });
      return needs;
    }
  };
  const readAnew = (key: string, tenant: string, document: string): Promise<Needs> => {
    const underWay = reading.get(key) ?? look(key, tenant, document).finally(() => reading.delete(key));
    reading.set(key, underWay);
    return underWay;
  };
  const readQuietly = (key: string, tenant: string, document: string): void => {
    readAnew(key, tenant, document).catch((problem: unknown) =>
      environment.log({ level: "warn", event: "bindings.needs_unread", tenant, package: document, why: whyOf(problem) }),
    );
  };
  const isFresh = ({ readAt }: Entry): boolean => environment.clock.monotonic() - readAt < needsLimits.freshMs;

  return {
    known(tenant, name, version) {
      const document = `${name}/${version}`;
      const key = `${tenant}/${document}`;
      const entry = entries.get(key);
      if (entry !== undefined && !isFresh(entry) && !reading.has(key)) readQuietly(key, tenant, document);
      return entry?.needs;
    },
    read(tenant, name, version) {
      const document = `${name}/${version}`;
      const key = `${tenant}/${document}`;
      const entry = entries.get(key);
      return entry !== undefined && isFresh(entry) ? Promise.resolve(entry.needs) : readAnew(key, tenant, document);
    },
    note(tenant, reported) {
      if (shownLast.size >= needsLimits.knownMax) {
        shownLast.clear();
        unkept.clear();
      }
      for (const { name, version, manifest } of reported) {
        const document = `${name}/${version}`;
        const key = `${tenant}/${document}`;
        const word = requirementsWord(manifest);
        // Word of resources that nobody knew of: no task of it may leave before the manifest is kept and read.
        if (word !== null && word !== shownLast.get(key)) {
          shownLast.set(key, word);
          unkept.add(key);
          entries.delete(key);
        }
        // What finds no room is read for its first task.
        if (!entries.has(key) && !reading.has(key) && reading.size < needsLimits.readingMax) readQuietly(key, tenant, document);
      }
    },
  };
}

/** A digest of what it asks for. Null where that is nothing, or it is no manifest at all: then it is not kept either. */
function requirementsWord(manifest: unknown): string | null {
  const { requirements } = (manifest ?? {}) as { requirements?: { resources?: unknown } | null };
  const resources = requirements?.resources;
  if (!Array.isArray(resources) || resources.length === 0) return null;
  return createHash("sha256").update(JSON.stringify(resources)).digest("base64");
}

const whyOf = (problem: unknown): string => (problem instanceof Error ? problem.message : String(problem));
