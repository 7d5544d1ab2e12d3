/**
 * `npm run conform`: set-up with its Python tools, then scripts/conform/conform.ts, which compares a started scheduler with the
 * OpenAPI document. Words after `--` are passed on; the program's end is ours.
 */
import { spawn } from "node:child_process";
import { join } from "node:path";
import { pythonTools, root, setUpOrExplain } from "./setup.mjs";

const ready = setUpOrExplain("conform");
if (!ready) process.exit(2);

const child = spawn(ready.node, [join(root, "scripts", "conform", "conform.ts"), ...process.argv.slice(2)], {
  cwd: root,
  stdio: "inherit",
  env: { ...ready.env, ASTRA_PYTHON_TOOLS: pythonTools },
});
// The terminal sends Ctrl-C to both; the child ends what it has started.
for (const signal of /** @type {const} */ (["SIGINT", "SIGTERM"])) process.on(signal, () => child.kill(signal));
child.on("error", (cause) => {
  console.error(`conform could not be started with ${ready.node}: ${cause.message}`);
  process.exit(1);
});
child.on("exit", (code) => process.exit(code ?? 1));
