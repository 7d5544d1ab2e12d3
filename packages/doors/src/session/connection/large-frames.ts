// Reads the large frames of all workers one at a time. Each takes up to 200 ms, so everything else that waits for this thread goes on before
// each of them, between the steps in which it is read, and between the manifests in it.

import { isRecord, type JsonObject, limits } from "@astraflow/protocol";
import { type ReportedPackage, reportedManifestDigest } from "@astraflow/services";

export class LargeFrameQueue {
  readonly #yieldLoop: () => Promise<void>;
  readonly #waitingBytesMax: number;
  #last: Promise<void> = Promise.resolve();
  #waitingBytes = 0;

  constructor(yieldLoop: () => Promise<void>, waitingBytesMax: number) {
    this.#yieldLoop = yieldLoop;
    this.#waitingBytesMax = waitingBytesMax;
  }

  /** Whether there is room for one more. */
  takes(bytes: number): boolean {
    return this.#waitingBytes + bytes <= this.#waitingBytesMax;
  }

  /** `read` is called when all earlier ones have ended, and must not throw. */
  add(bytes: number, read: () => Promise<void>): void {
    this.#waitingBytes += bytes;
    this.#last = this.#last
      .then(() => this.#yieldLoop())
      .then(read)
      .then(() => {
        this.#waitingBytes -= bytes;
      });
  }

  /** The value that the steps return. */
  async readInSteps<T>(steps: Generator<void, T>): Promise<T> {
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value;
      await this.#yieldLoop();
    }
  }

  /** To be awaited between reading a payload and handling it. The digests of its manifests are computed meanwhile, and found later. */
  async digestManifests(payload: JsonObject): Promise<void> {
    await this.#yieldLoop();
    for (const reported of listManifests(payload)) {
      reportedManifestDigest(reported);
      await this.#yieldLoop();
    }
  }
}

/** The manifests of a register or a catalogue that has not been checked yet. */
function listManifests({ manifests, packages }: JsonObject): ReportedPackage[] {
  const listed = [manifests, packages].flatMap((list) => (Array.isArray(list) ? list.slice(0, limits.packagesMax) : []));
  return listed.flatMap((one) => {
    if (!isRecord(one) || !isRecord(one["manifest"])) return [];
    const { name, version, manifest } = one;
    return typeof name === "string" && typeof version === "string" ? [{ name, version, manifest }] : [];
  });
}
