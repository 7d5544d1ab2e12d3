// Public keys that signatures are checked with. Node takes any 32 bytes for a key; some of them verify signatures that nobody made.

import { createHash, createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { Fault, fault } from "@astraflow/protocol";

/** What stands before the 32 bytes in the usual encoding (SPKI) of an ed25519 key. */
const spkiPrefix = Buffer.from("302a300506032b6570032100", "hex");
const fieldPrime = 2n ** 255n - 19n;
const curveD = 37095705934669439343138083508754565189542113879843219016388785533085940283555n;
/** The second coordinates of all points whose order divides 8: with such a key a signature of one text is one of many texts. */
const smallOrderY: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  fieldPrime - 1n,
  2707385501144840649318225287225658788936804267575313519463743609750303402022n,
  55188659117513257062467267217118295137698188065244968500265048394206261417927n,
]);

export interface PublicKey {
  /** The first 32 hex digits of the SHA-256 of the key's 32 bytes. */
  readonly id: string;
  readonly key: KeyObject;
}

/** Reads a public key: PEM, or its 32 bytes in base64 or base64url. */
export function readPublicKey(text: string): PublicKey | Fault {
  const raw = text.includes("-----") ? readPem(text) : decodeBase64(text.trim());
  if (raw instanceof Fault) return raw;
  const problem = findPointProblem(raw);
  if (problem !== null) return refuse(problem);
  return { id: computeKeyId(raw), key: createPublicKey({ key: Buffer.concat([spkiPrefix, raw]), format: "der", type: "spki" }) };
}

export interface PrivateKey {
  readonly key: KeyObject;
  readonly publicKey: PublicKey;
}

/** Reads a private key in PEM, as `openssl genpkey -algorithm ed25519` writes it. */
export function readPrivateKey(pem: string): PrivateKey | Fault {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch (thrown) {
    return fault("E.PKG.PERMISSION", "the signing key is not a private key in PEM", undefined, thrown);
  }
  if (key.asymmetricKeyType !== "ed25519")
    return fault("E.PKG.PERMISSION", `the signing key is for ${key.asymmetricKeyType}, not for ed25519`);
  const publicKey = readPublicKey(exportRaw(createPublicKey(key)).toString("base64"));
  return publicKey instanceof Fault ? publicKey : { key, publicKey };
}

const refuse = (problem: string, cause?: unknown) => fault("E.PKG.PERMISSION", `the public key ${problem}`, undefined, cause);

const computeKeyId = (raw: Buffer): string => createHash("sha256").update(raw).digest("hex").slice(0, 32);

function readPem(text: string): Buffer | Fault {
  try {
    const key = createPublicKey(text);
    if (key.asymmetricKeyType !== "ed25519") return refuse(`is for ${key.asymmetricKeyType}, not for ed25519`);
    return exportRaw(key);
  } catch (thrown) {
    return refuse("cannot be read as PEM", thrown);
  }
}

function exportRaw(key: KeyObject): Buffer {
  return key.export({ format: "der", type: "spki" }).subarray(spkiPrefix.length);
}

function decodeBase64(text: string): Buffer | Fault {
  const raw = Buffer.from(text, "base64url");
  return raw.length === 32 && /^[A-Za-z0-9+/_-]{43}=?$/.test(text) ? raw : refuse("must be PEM, or 32 bytes in base64");
}

/** Null: the bytes are a point of the curve, written in the one canonical way, and of large order. */
function findPointProblem(raw: Buffer): string | null {
  const isNegative = ((raw[31] ?? 0) & 0x80) !== 0;
  const littleEndian = Buffer.from(raw).reverse();
  littleEndian[0] = (littleEndian[0] ?? 0) & 0x7f;
  const y = BigInt(`0x${littleEndian.toString("hex")}`);
  if (y >= fieldPrime) return "is not written in the canonical way";
  if (smallOrderY.has(y))
    return isNegative && (y === 1n || y === fieldPrime - 1n)
      ? "is not written in the canonical way"
      : "has a small order: it would accept signatures that nobody made";
  // x² = (y² - 1) / (d y² + 1) must have a root.
  const numerator = (y * y - 1n + fieldPrime) % fieldPrime;
  const denominator = (curveD * y * y + 1n) % fieldPrime;
  const isSquare = power((numerator * denominator) % fieldPrime, (fieldPrime - 1n) / 2n) === 1n;
  return isSquare ? null : "is not a point of the curve";
}

function power(base: bigint, exponent: bigint): bigint {
  let result = 1n;
  let square = base % fieldPrime;
  for (let left = exponent; left > 0n; left >>= 1n) {
    if ((left & 1n) === 1n) result = (result * square) % fieldPrime;
    square = (square * square) % fieldPrime;
  }
  return result;
}
