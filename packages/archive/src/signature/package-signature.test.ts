import { generateKeyPairSync } from "node:crypto";
import { Fault, readPackageSignature } from "@astraflow/protocol";
import { describe, expect, it } from "vitest";
import { computeContentDigest, sha256Hex } from "./content-digest.ts";
import { type PrivateKey, type PublicKey, readPrivateKey, readPublicKey } from "./ed25519-key.ts";
import { findSignatureProblem, signArchive } from "./package-signature.ts";

function createKey(): PrivateKey {
  const pem = generateKeyPairSync("ed25519").privateKey.export({ format: "pem", type: "pkcs8" }).toString();
  const key = readPrivateKey(pem);
  if (key instanceof Fault) throw key;
  return key;
}

const archive = { sha256: sha256Hex("the archive"), bytes: 11 };
const identity = { ...archive, name: "acme.tools", version: "1.2.3", tenant: "acme" };
const claims = { ...identity, signedAt: "2026-01-02T03:04:05Z", signedBy: "Ann" };
const key = createKey();
const trusted: PublicKey[] = [key.publicKey];

describe("the signature of an archive", () => {
  it("[R750] a signature by a trusted key over exactly these bytes, package, version and tenant is accepted, also after its document was read", () => {
    const signature = readPackageSignature(JSON.parse(JSON.stringify(signArchive(archive, claims, key))));

    expect(signature).not.toBeInstanceOf(Fault);
    expect(findSignatureProblem(signature as never, identity, trusted)).toBeNull();
  });

  it.each([
    ["another archive", { sha256: sha256Hex("another archive") }, "other bytes"],
    ["another length", { bytes: 12 }, "other bytes"],
    ["another package", { name: "acme.tool" }, "not for acme.tool "],
    ["another version", { version: "1.2.4" }, "not for acme.tools 1.2.4"],
    ["another tenant", { tenant: "globex" }, "not for globex"],
  ])("[R750] a signature of %s is refused", (_, change, reason) => {
    const signature = signArchive(archive, claims, key);

    const problem = findSignatureProblem(signature, { ...identity, ...change }, trusted);

    expect(problem).toMatchObject({ code: "E.PKG.PERMISSION", message: expect.stringContaining(reason) });
  });

  it.each([
    ["package", { package: { name: "acme.tools", version: "1.2.3 " } }],
    ["tenant", { tenant: "*" }],
    ["sha256", { sha256: sha256Hex("another archive") }],
    ["bytes", { bytes: 12 }],
    ["signedAt", { signedAt: "2027-01-02T03:04:05Z" }],
    ["signedBy", { signedBy: "Bob" }],
    ["ed25519", { ed25519: `${"A".repeat(86)}==` }],
  ])("[R750] a signature whose %s was changed is wrong", (_, change) => {
    const signature = { ...signArchive(archive, claims, key), ...change };
    const { sha256, bytes, tenant } = signature;

    const problem = findSignatureProblem(signature, { ...signature.package, sha256, bytes, tenant }, trusted);

    expect(problem?.message).toContain("is wrong");
  });

  it("[R750] no flipped bit of a signature is accepted", () => {
    const signature = signArchive(archive, claims, key);
    const bytes = Buffer.from(signature.ed25519, "base64");

    const accepted = Array.from({ length: 512 }, (_, bit) => {
      const flipped = Buffer.from(bytes);
      flipped[bit >> 3] = (flipped[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      return findSignatureProblem({ ...signature, ed25519: flipped.toString("base64") }, identity, trusted);
    }).filter((problem) => problem === null);

    expect(accepted).toEqual([]);
  });

  it("[R751] an unknown key is refused with its id, a key that is trusted for other packages too, and a signature for every tenant fits every tenant", () => {
    const signature = signArchive(archive, claims, key);
    const limited = { ...key.publicKey, packages: ["globex.*", "acme"] };

    expect(findSignatureProblem(signature, identity, [createKey().publicKey])?.message).toContain(key.publicKey.id);
    expect(findSignatureProblem(signature, identity, [limited])?.message).toContain("but not for acme.tools");
    expect(findSignatureProblem(signature, identity, [{ ...limited, packages: ["acme.*"] }])).toBeNull();
    expect(findSignatureProblem(signArchive(archive, { ...claims, tenant: "*" }, key), identity, trusted)).toBeNull();
  });
});

const fieldPrime = 2n ** 255n - 19n;
function encodePoint(y: bigint, sign = 0): string {
  const bytes = Buffer.from(y.toString(16).padStart(64, "0"), "hex").reverse();
  bytes[31] = (bytes[31] ?? 0) | (sign << 7);
  return bytes.toString("base64");
}
const orderEight = [
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
];

describe("a public key", () => {
  it.each([
    ["the neutral point", encodePoint(1n), "small order"],
    ["the point of order 2", encodePoint(fieldPrime - 1n), "small order"],
    ["a point of order 4", encodePoint(0n), "small order"],
    ["the other point of order 4", encodePoint(0n, 1), "small order"],
    ...orderEight.flatMap((hex) =>
      [0, 0x80].map((sign) => {
        const bytes = Buffer.from(hex, "hex");
        bytes[31] = (bytes[31] ?? 0) | sign;
        return [`order 8, ${hex.slice(0, 8)}, sign ${sign}`, bytes.toString("base64"), "small order"];
      }),
    ),
    ["the neutral point with a sign", encodePoint(1n, 1), "canonical"],
    ["zero written as the prime", encodePoint(fieldPrime), "canonical"],
    ["one written beyond the prime", encodePoint(fieldPrime + 1n, 1), "canonical"],
    ["bytes that are no point", encodePoint(2n), "not a point"],
    ["too few bytes", Buffer.alloc(31).toString("base64"), "32 bytes"],
    [
      "another algorithm",
      generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "pem", type: "spki" }).toString(),
      "not for ed25519",
    ],
  ])("[R752] %s is refused", (_, text = "", reason) => {
    expect(readPublicKey(text)).toMatchObject({ code: "E.PKG.PERMISSION", message: expect.stringContaining(reason ?? "") });
  });

  it("[R752] the keys that Node makes are accepted in PEM and base64, under the same id", () => {
    for (let count = 0; count < 20; count++) {
      const { publicKey } = generateKeyPairSync("ed25519");
      const pem = publicKey.export({ format: "pem", type: "spki" }).toString();
      const { x } = publicKey.export({ format: "jwk" });

      const ids = [pem, x ?? ""].map((text) => (readPublicKey(text) as PublicKey).id);

      expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
      expect(ids[1]).toBe(ids[0]);
    }
  });
});

describe("the digest that a manifest states", () => {
  const files = [
    { name: "b.py", sha256: sha256Hex("b") },
    { name: "a.py", sha256: sha256Hex("a") },
  ];
  const manifest = { name: "acme", nodes: [{ label: "x", type: "y" }] };

  it("[R753] the digest depends on every file, its name and the manifest, not on their order, the manifest's spaces or its own signature", () => {
    const digest = computeContentDigest(files, manifest);

    // As a shell would compute it.
    const manifestDigest = sha256Hex('{"name":"acme","nodes":[{"label":"x","type":"y"}]}');
    expect(digest).toBe(sha256Hex(`${sha256Hex("a")}  a.py\n${sha256Hex("b")}  b.py\n${manifestDigest}  manifest.json\n`));
    expect(computeContentDigest(files.toReversed(), { nodes: [{ type: "y", label: "x" }], name: "acme" })).toBe(digest);
    expect(computeContentDigest(files, { ...manifest, signature: { sha256: digest } })).toBe(digest);
    expect(computeContentDigest(files, { ...manifest, name: "acmf" })).not.toBe(digest);
    expect(computeContentDigest(files.slice(1), manifest)).not.toBe(digest);
    expect(computeContentDigest([{ name: "c.py", sha256: sha256Hex("b") }, ...files.slice(1)], manifest)).not.toBe(digest);
  });
});
