// The file of keys whose signatures a worker trusts: one public key in PEM, or a JSON list of keys with the packages they may sign.

import { readPublicKey } from "@astraflow/archive";
import { didYouMean, Fault, fault, isRecord, limits, readJson } from "@astraflow/protocol";
import type { InstallSettings } from "./install-settings.ts";

type TrustedKeyText = InstallSettings["trustedKeys"][number];

const keyFields = ["publicKey", "packages"];

/** All keys, each of them usable; or what is wrong with the file. */
export function readTrustedKeys(text: string): readonly TrustedKeyText[] | Fault {
  const isJson = text.trimStart().startsWith("[");
  const list: unknown = isJson
    ? readJson(text, { ...limits.json.manifest, subject: "holds a list that" })
    : [{ publicKey: text }];
  if (list instanceof Fault) return list;
  if (!Array.isArray(list) || list.length === 0) return refuse("must be a public key in PEM, or a JSON list of keys");
  return findUnknownField(list as readonly unknown[]) ?? readKeyList(list as readonly unknown[]);
}

/** A misspelt `packages` would otherwise let its key sign every package. */
function findUnknownField(list: readonly unknown[]): Fault | null {
  for (const [index, item] of list.entries()) {
    const unknown = Object.keys(isRecord(item) ? item : {}).find((field) => !keyFields.includes(field));
    if (unknown !== undefined)
      return refuse(`has the unknown field ${JSON.stringify(unknown)} at place ${index + 1}${didYouMean(unknown, keyFields)}`);
  }
  return null;
}

/** The keys as the scheduler's `/api/v1/package-keys` lists them; there may be none. */
export function readRepositoryKeys(text: string): readonly TrustedKeyText[] | Fault {
  const page = readJson(text, limits.json.request);
  const items = isRecord(page) ? page["items"] : undefined;
  const keys = Array.isArray(items) ? readKeyList(items) : refuse("is no list of keys");
  return keys instanceof Fault ? fault("E.PKG.PERMISSION", `what the repository says about its keys ${keys.message}`) : keys;
}

function readKeyList(list: readonly unknown[]): readonly TrustedKeyText[] | Fault {
  const keys: TrustedKeyText[] = [];
  for (const [index, item] of list.entries()) {
    const { publicKey, packages } = isRecord(item) ? item : {};
    const isList = packages === undefined || (Array.isArray(packages) && packages.every((one) => typeof one === "string"));
    if (typeof publicKey !== "string" || !isList)
      return refuse(`has no publicKey, or packages that are not a list of names, at place ${index + 1}`);
    const key = readPublicKey(publicKey);
    if (key instanceof Fault) return refuse(`has a key at place ${index + 1} that cannot be used: ${key.message}`);
    keys.push(packages === undefined ? { publicKey } : { publicKey, packages: packages as string[] });
  }
  return keys;
}

const refuse = (message: string) => fault("E.CONFIG.INVALID", message);
