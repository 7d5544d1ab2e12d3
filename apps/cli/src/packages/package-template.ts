// The files that `astra packages new` writes: a package with one node, which can be built and run as it is.

export const packageRuntimes = ["python", "node"] as const;
export type PackageRuntime = (typeof packageRuntimes)[number];

/** By their paths inside the package. */
export function createPackageFiles(name: string, runtime: PackageRuntime): Readonly<Record<string, string>> {
  const module = name.replaceAll(/[.-]/g, "_");
  const isPython = runtime === "python";
  const manifest = {
    schemaVersion: "1.0.0",
    name,
    version: "0.1.0",
    description: `What ${name} does`,
    adapters: [
      {
        name: "main",
        runtime,
        entrypoint: isPython ? `${module}.adapter:Adapter` : `adapters/${module}/adapter.mjs`,
        capabilities: [`${name}.greet`],
        idempotency: "per_request",
      },
    ],
    ...(isPython ? { python: { requires: ">=3.10", dependencies: [] } } : { node: { requires: ">=22" } }),
    nodes: [
      {
        type: `${name}.greet`,
        status: "published",
        category: "Text",
        label: "Greet",
        adapter: "main",
        handler: "greet",
        schema: {
          parameters: { type: "object", properties: { name: { type: "string", default: "world" } } },
          results: { type: "object", properties: { greeting: { type: "string" } }, required: ["greeting"] },
        },
      },
    ],
  };
  return {
    "manifest.json": `${JSON.stringify(manifest, null, 2)}\n`,
    ...(isPython
      ? { [`adapters/${module}/__init__.py`]: "", [`adapters/${module}/adapter.py`]: pythonAdapter }
      : { [`adapters/${module}/adapter.mjs`]: nodeAdapter }),
    "resources/README.md":
      "Files that the nodes read. Large ones are better listed in the manifest's `resources`, with an address and a SHA-256.\n",
    "scripts/README.md":
      "Install and uninstall hooks, if the package needs any. Workers run them only where a setting allows it.\n",
    "requirements.txt": "# The lock of python.dependencies: NAME==VERSION --hash=sha256:DIGEST\n",
  };
}

const pythonAdapter = `class Adapter:
    def greet(self, ctx):
        ctx.feedback.emit_text("greeting")
        return {"greeting": f"Hello, {ctx.params.get('name', 'world')}!"}
`;

const nodeAdapter = `/** @param {{ params: { name?: string } }} context */
export function greet({ params }) {
  return { greeting: \`Hello, \${params.name ?? "world"}!\` };
}
`;
