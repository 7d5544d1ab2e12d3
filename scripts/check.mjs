/** `npm run check`: everything that can be said about the code without running its tests. The steps are in check-steps.mjs. */
import { listSteps, runSteps } from "./check-steps.mjs";
import { root, setUpOrExplain } from "./setup.mjs";

const ready = setUpOrExplain("check");
if (!ready) process.exit(2);

const failed = await runSteps(listSteps({ root, node: ready.node }), { root, ...ready }, console.log);
console.log(failed.length === 0 ? "check: all good" : `check: failed: ${failed.join(", ")}`);
process.exitCode = failed.length === 0 ? 0 : 1;
