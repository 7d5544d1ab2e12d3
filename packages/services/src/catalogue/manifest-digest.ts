// Which manifest a worker announced: a digest of what it says, whatever the order of its keys.

import { createHash } from "node:crypto";
import { canonicalJson } from "@astraflow/graph";
import { Fault, LruMap, type Manifest, readManifest } from "@astraflow/protocol";

export interface ReportedPackage {
  readonly name: string;
  readonly version: string;
  readonly manifest?: unknown;
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);

export const manifestDigest = (manifest: Manifest): string => sha256(canonicalJson(manifest));

/** By the text that was reported: a fleet that joins at once reports the same few. */
const digestsOfTexts = new LruMap<string, string | null>({ entriesMax: 2_000 });

/** The same by the object: whoever asks again about one report pays nothing. */
const digestsOfReports = new WeakMap<object, { readonly key: string; readonly digest: string | undefined }>();

/** The digest of what a worker reported for a package; undefined where that is no manifest of it. */
export function reportedManifestDigest(reported: ReportedPackage): string | undefined {
  const { name, version, manifest } = reported;
  if (manifest === undefined || manifest === null) return undefined;
  if (typeof manifest !== "object") return digestByText(reported);
  const key = `${name}/${version}`;
  const known = digestsOfReports.get(manifest);
  if (known?.key === key) return known.digest;
  const digest = digestByText(reported);
  digestsOfReports.set(manifest, { key, digest });
  return digest;
}

function digestByText({ name, version, manifest: reported }: ReportedPackage): string | undefined {
  const key = sha256(`${name}/${version} ${JSON.stringify(reported)}`);
  const known = digestsOfTexts.get(key);
  if (known !== undefined) return known ?? undefined;
  const manifest = readManifest(reported);
  const isItsOwn = !(manifest instanceof Fault) && manifest.name === name && manifest.version === version;
  const digest = isItsOwn ? manifestDigest(manifest) : null;
  digestsOfTexts.set(key, digest);
  return digest ?? undefined;
}
