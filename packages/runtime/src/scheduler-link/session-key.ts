// The key of a session: made for its handshake, never stored, and used to sign every resume.

import { createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";
import { type ResumePayload, resumeProofText } from "@astraflow/protocol";

/** What stands before the 32 bytes of an Ed25519 private key in its DER form. */
const derHead = Buffer.from("302e020100300506032b657004220420", "hex");

export class SessionKey {
  readonly publicKey: string;
  readonly #privateKey: KeyObject;
  #count = 0;

  /** `secret`: 32 random bytes. */
  constructor(secret: Uint8Array) {
    this.#privateKey = createPrivateKey({ key: Buffer.concat([derHead, secret]), format: "der", type: "pkcs8" });
    this.publicKey = createPublicKey(this.#privateKey).export({ format: "jwk" }).x ?? "";
  }

  /** Signs a resume. The scheduler takes no proof twice: each has a higher count. */
  prove<R extends Pick<ResumePayload, "session_id" | "session_token">>(
    resume: R,
    tokenAgeMs: number,
  ): R & Pick<ResumePayload, "proof"> {
    this.#count += 1;
    const proof = { count: this.#count, age_ms: Math.max(0, Math.round(tokenAgeMs)) };
    const signature = sign(null, Buffer.from(resumeProofText({ ...resume, proof }), "utf8"), this.#privateKey);
    return { ...resume, proof: { ...proof, signature: signature.toString("base64url") } };
  }
}
