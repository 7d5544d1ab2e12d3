// Which resources a package's version asks for, as the kept manifest says. Known at once for whatever was looked at before, so that a
// dispatch of a package that asks for nothing waits for nobody. What is granted for them is in resource-bindings.ts.

import { createHash } from "node:crypto";
import type { StoreReader } from "@astraflow/engine";
import { type PackageDocument, packageCollection } from "../catalogue/manifest-recorder.ts";
import type { ReportedPackage } from "../catalogue/worker-handlers.ts";
import type { ServiceEnvironment } from "../environment/service-environment.ts";
import type { ResourceRequirement } from "./resource-bindings.ts";

export interface ResourceRequirementsOptions {
  readonly reader: StoreReader;
  readonly environment: ServiceEnvironment;
  /** Resolves when the manifests that were shown so far are kept. */
  readonly whenManifestsStored: () => Promise<void>;
}

export interface ResourceRequirements {
  /** Undefined: not read yet. An old answer counts, and is looked after behind the caller's back. */
  getCached(tenant: string, name: string, version: string): RequirementList | undefined;
  /** As of now, or of a second ago. */
  load(tenant: string, name: string, version: string): Promise<RequirementList>;
  /** A worker shows these: what they ask for is read before the first task of theirs is sent. Never throws. */
  preload(tenant: string, reported: readonly ReportedPackage[]): void;
}

export type RequirementList = readonly ResourceRequirement[];

const requirementLimits = {
  /** So long an answer is used without a look at the store. */
  freshMs: 1_000,
  /** Versions of packages of all tenants; beyond it all are read again. */
  entriesMax: 20_000,
  /** Read ahead of their first task at the same time. */
  concurrentReadsMax: 100,
} as const;

interface CachedRequirements {
  readonly requirements: RequirementList;
  readonly readAt: number;
}

const noRequirements: RequirementList = [];

export function createResourceRequirements({
  reader,
  environment,
  whenManifestsStored,
}: ResourceRequirementsOptions): ResourceRequirements {
  const entries = new Map<string, CachedRequirements>();
  const reading = new Map<string, Promise<RequirementList>>();
  /** By package: a word for the requirements that a worker showed last, where it showed some. */
  const lastReported = new Map<string, string>();
  /** Packages whose manifest is still on its way into the store. */
  const awaitingStorage = new Set<string>();

  const readStored = async (key: string, tenant: string, document: string): Promise<RequirementList> => {
    for (;;) {
      const reported = lastReported.get(key);
      if (awaitingStorage.has(key)) await whenManifestsStored();
      const readAt = environment.clock.monotonic();
      const { items } = await reader.page({ page: "doc", tenant, collection: packageCollection, names: [document] });
      // Another manifest was shown meanwhile: what was read may be the one before it.
      if (lastReported.get(key) !== reported) continue;
      const doc = items[0] ?? null;
      const needs = doc === null ? noRequirements : (JSON.parse(doc.body) as PackageDocument).manifest.requirements.resources;
      awaitingStorage.delete(key);
      if (entries.size >= requirementLimits.entriesMax) entries.clear();
      entries.set(key, { requirements: needs, readAt });
      return needs;
    }
  };
  const readOnce = (key: string, tenant: string, document: string): Promise<RequirementList> => {
    const underWay = reading.get(key) ?? readStored(key, tenant, document).finally(() => reading.delete(key));
    reading.set(key, underWay);
    return underWay;
  };
  const readInBackground = (key: string, tenant: string, document: string): void => {
    readOnce(key, tenant, document).catch((problem: unknown) =>
      environment.log({ level: "warn", event: "bindings.needs_unread", tenant, package: document, why: errorMessageOf(problem) }),
    );
  };
  const isFresh = ({ readAt }: CachedRequirements): boolean => environment.clock.monotonic() - readAt < requirementLimits.freshMs;

  return {
    getCached(tenant, name, version) {
      const document = `${name}/${version}`;
      const key = `${tenant}/${document}`;
      const entry = entries.get(key);
      if (entry !== undefined && !isFresh(entry) && !reading.has(key)) readInBackground(key, tenant, document);
      return entry?.requirements;
    },
    load(tenant, name, version) {
      const document = `${name}/${version}`;
      const key = `${tenant}/${document}`;
      const entry = entries.get(key);
      return entry !== undefined && isFresh(entry) ? Promise.resolve(entry.requirements) : readOnce(key, tenant, document);
    },
    preload(tenant, reported) {
      if (lastReported.size >= requirementLimits.entriesMax) {
        lastReported.clear();
        awaitingStorage.clear();
      }
      for (const { name, version, manifest } of reported) {
        const document = `${name}/${version}`;
        const key = `${tenant}/${document}`;
        const digest = requirementsDigest(manifest);
        // Word of resources that nobody knew of: no task of it may leave before the manifest is kept and read.
        if (digest !== null && digest !== lastReported.get(key)) {
          lastReported.set(key, digest);
          awaitingStorage.add(key);
          entries.delete(key);
        }
        // What finds no room is read for its first task.
        if (!entries.has(key) && !reading.has(key) && reading.size < requirementLimits.concurrentReadsMax)
          readInBackground(key, tenant, document);
      }
    },
  };
}

/** A digest of what it asks for. Null where that is nothing, or it is no manifest at all: then it is not kept either. */
function requirementsDigest(manifest: unknown): string | null {
  const { requirements } = (manifest ?? {}) as { requirements?: { resources?: unknown } | null };
  const resources = requirements?.resources;
  if (!Array.isArray(resources) || resources.length === 0) return null;
  return createHash("sha256").update(JSON.stringify(resources)).digest("base64");
}

const errorMessageOf = (problem: unknown): string => (problem instanceof Error ? problem.message : String(problem));
