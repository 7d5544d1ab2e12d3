// Two packages for the feedback bench, one for Node and one for Python, with the same nodes: one that writes 1,000 chunks of text a second
// until a file is there, and one that returns at once.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

export const feedbackRuntimes = ["node", "python"] as const;
export type FeedbackRuntime = (typeof feedbackRuntimes)[number];

const chunkText = "one line of a log, as long as they usually are, with some numbers: 0123456789 0123456789";

const nodeCode = `
import { existsSync } from "node:fs";
export const quick = () => ({ returnedAt: Date.now() });
export const flood = async ({ params, feedback }) => {
  const from = performance.now();
  let sent = 0;
  while (!existsSync(params.stop)) {
    for (const due = ((performance.now() - from) / 1000) * params.perSecond; sent < due; sent++) feedback.emitText(${JSON.stringify(chunkText)});
    await new Promise((go) => setTimeout(go, 5));
  }
  return { sent, seconds: (performance.now() - from) / 1000 };
};
`;

const pythonCode = `
import asyncio, os, time
def quick(ctx):
    return {"returnedAt": int(time.time() * 1000)}
async def flood(ctx):
    since = time.monotonic()
    sent = 0
    while not os.path.exists(ctx.params["stop"]):
        while sent < (time.monotonic() - since) * ctx.params["perSecond"]:
            ctx.feedback.send_nowait(chunks=[{"channel": "log", "text": ${JSON.stringify(chunkText)}}])
            sent += 1
        await asyncio.sleep(0.005)
    return {"sent": sent, "seconds": time.monotonic() - since}
`;

const parts = {
  node: { section: { node: { requires: ">=22" } }, entrypoint: "main.mjs", file: "main.mjs", code: nodeCode },
  python: { section: { python: { requires: ">=3.10" } }, entrypoint: "main", file: "main.py", code: pythonCode },
} as const;

export function writeFloodingPackages(root: string): void {
  for (const runtime of feedbackRuntimes) {
    const { section, entrypoint, file, code } = parts[runtime];
    const usual = { status: "published", category: "Bench", adapter: "main", schema: {} };
    const manifest = {
      ...{ schemaVersion: "1.0.0", name: runtime, version: "1.0.0", description: "", ...section },
      adapters: [{ name: "main", entrypoint, capabilities: ["feedback"] }],
      nodes: ["quick", "flood"].map((handler) => ({ ...usual, type: `${runtime}.${handler}`, label: handler, handler })),
    };
    for (const [name, text] of [["manifest.json", JSON.stringify(manifest)] as const, [file, code] as const]) {
      mkdirSync(dirname(join(root, runtime, name)), { recursive: true });
      writeFileSync(join(root, runtime, name), text);
    }
  }
}

/** The body of a submit: one node. */
export function oneNodeRequest(runtime: FeedbackRuntime, handler: "quick" | "flood", parameters: object = {}): string {
  const node = {
    id: "0de70000-0000-4000-8000-000000000001",
    type: `${runtime}.${handler}`,
    package: { name: runtime, version: "1.0.0" },
    label: handler,
    position: { x: 0, y: 0 },
    parameters,
  };
  const id = "0de70000-0000-4000-8000-000000000002";
  const workflow = { id, schemaVersion: "2025-10", metadata: { name: handler }, nodes: [node], edges: [] };
  return JSON.stringify({ workflow, clientId: "bench" });
}
