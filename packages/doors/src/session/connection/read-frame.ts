// From the bytes of a message to the envelope of a frame, at once or in steps.

import {
  type Envelope,
  Fault,
  fault,
  type JsonLimits,
  type JsonValue,
  limits,
  readEnvelope,
  readJson,
  readJsonInSteps,
} from "@astraflow/protocol";
import type { HandshakeIdentity } from "../registration/worker-handshake.ts";

/** `identity`: null before the handshake. */
export function readFrame(data: Buffer, isBinary: boolean, identity: HandshakeIdentity | null): Envelope | Fault {
  const bounds = boundsFor(identity);
  return findUnreadable(data, isBinary, bounds) ?? toEnvelope(readJson(data.toString("utf8"), bounds), identity);
}

/** The same, with a `yield` wherever the caller may pause. */
export function* readFrameInSteps(
  data: Buffer,
  isBinary: boolean,
  identity: HandshakeIdentity | null,
): Generator<void, Envelope | Fault> {
  const bounds = boundsFor(identity);
  const refusal = findUnreadable(data, isBinary, bounds);
  return refusal ?? toEnvelope(yield* readJsonInSteps(data.toString("utf8"), bounds), identity);
}

const boundsFor = (identity: HandshakeIdentity | null): JsonLimits =>
  identity === null ? limits.json.unauthenticated : limits.json.frame;

/** Before it becomes text, which takes long for one that is far too large. The socket library has checked that text is UTF-8. */
function findUnreadable({ length }: Buffer, isBinary: boolean, { bytesMax }: JsonLimits): Fault | null {
  if (isBinary) return fault("E.FRAME.INVALID", "frames are text, not binary");
  return length <= bytesMax ? null : fault("E.FRAME.TOO_LARGE", `a frame may have ${bytesMax} bytes, this one has ${length}`);
}

const toEnvelope = (value: JsonValue | Fault, identity: HandshakeIdentity | null): Envelope | Fault =>
  value instanceof Fault ? value : readEnvelope(value, identity?.dialect ?? "any");
