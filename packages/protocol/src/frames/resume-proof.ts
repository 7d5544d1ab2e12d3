// The text that a worker signs to resume its session. It names the token, which every accept replaces, and a count that rises: what was recorded is
// worth nothing once it has arrived, and after a while in any case.

import type { ResumePayload } from "./control-payloads.ts";

type ProvenResume = Pick<ResumePayload, "session_id" | "session_token"> & {
  readonly proof: Pick<NonNullable<ResumePayload["proof"]>, "count" | "age_ms">;
};

export const resumeProofText = ({ session_id, session_token, proof }: ProvenResume): string =>
  ["astraflow resume", session_id, session_token, proof.count, proof.age_ms].join("\n");
