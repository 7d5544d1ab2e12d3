// Loads the adapters of a version that is not in place yet, as the worker would, in processes that end at once: what cannot be imported is
// found before anybody is offered it.

import { errorMessage, fault, type Manifest } from "@astraflow/protocol";
import { isForNode } from "../handlers/node-handlers.ts";
import { VendorFrameHub } from "../handlers/vendor-frames.ts";
import { type HostingSettings, HostSet } from "../hosts/host-set.ts";
import type { ProcessGroupListener } from "./limited-process.ts";

const environment = {
  now: () => performance.now(),
  after(ms: number, call: () => void) {
    const timer = setTimeout(call, ms);
    return () => clearTimeout(timer);
  },
  defer: (call: () => void) => void setImmediate(call),
};

/** Throws E.PKG.INVALID with the reasons where not one node of the version can be run. */
export async function probeAdapters(
  dir: string,
  manifest: Manifest,
  hosting: HostingSettings,
  groups: ProcessGroupListener = { groupStarted: () => {}, groupEnded: () => {} },
): Promise<void> {
  const problems: string[] = [];
  const hosts = new HostSet(
    {
      environment,
      groupStarted: (pid) => groups.groupStarted(pid),
      groupEnded: (pid) => groups.groupEnded(pid),
      // What an adapter prints while it is imported; the reason why it cannot be is among the problems of its host.
      reportProblem: () => {},
    },
    hosting,
  );
  const vendorFrames = new VendorFrameHub();
  const runtimes = new Set(manifest.adapters.map((adapter) => (isForNode(adapter, manifest) ? "node" : "python")));
  let handlerCount = 0;
  try {
    for (const runtime of runtimes) {
      try {
        const found = await hosts.openHost({ runtime, dir, manifest, vendorFrames });
        handlerCount += found.handlers.size;
        problems.push(...found.problems.map(({ message }) => message));
      } catch (thrown) {
        problems.push(errorMessage(thrown));
      }
    }
  } finally {
    await hosts.close();
  }
  if (handlerCount > 0) return;
  const reason = problems.length === 0 ? "it has no node that a worker runs" : problems.join("; ");
  // The folder has another name than the version will have.
  const message = `${manifest.name} ${manifest.version} cannot be loaded: ${reason}`.replaceAll(`${dir}/`, "");
  throw fault("E.PKG.INVALID", message);
}
