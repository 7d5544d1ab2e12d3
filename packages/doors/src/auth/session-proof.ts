// Proof of possession: a session that was opened with a key is resumed only by the holder of that key.

import { createPublicKey, verify } from "node:crypto";
import { type Fault, fault, type ResumePayload, resumeProofText } from "@astraflow/protocol";

/** How far the ages of a session token may differ by the clocks of both ends; a proof that was kept back for longer is refused. */
export const proofAgeToleranceMs = 60_000;

/** The key that a handshake brought, and the last proof that was accepted under it. */
export class SessionPublicKey {
  /** Ed25519, in base64url. As text: thousands of sessions have one, and few of them are ever resumed. */
  readonly #publicKey: string;
  #lastCount = 0;

  constructor(publicKey: string) {
    this.#publicKey = publicKey;
  }

  /**
   * Null: the resume comes from the holder of the key, and was not seen before. Such a proof is used up. `tokenAgeMs` is the age of the session
   * token here: both ends measure it by clocks of their own, which need not show the same time.
   */
  checkProof(resume: ResumePayload, tokenAgeMs: number): Fault | null {
    const { proof } = resume;
    if (proof === undefined) return invalidProof("control.resume has no proof, but the session was opened with a key");
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: this.#publicKey }, format: "jwk" });
    const text = Buffer.from(resumeProofText({ ...resume, proof }), "utf8");
    if (!verify(null, text, key, Buffer.from(proof.signature, "base64url")))
      return invalidProof("the proof was not signed with the key of the session");
    if (proof.count <= this.#lastCount) return invalidProof("the proof was used before");
    if (Math.abs(proof.age_ms - tokenAgeMs) > proofAgeToleranceMs) return invalidProof("the proof is too old");
    this.#lastCount = proof.count;
    return null;
  }
}

const invalidProof = (why: string): Fault => fault("E.SESSION.INVALID_PROOF", `${why}; send a new handshake`);
