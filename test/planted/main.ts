/**
 * `npm run planted`: plants the bugs of the bank, one at a time, in a copy of the repository and runs the tests that should find each.
 *   --only ID[,ID]   these bugs only          --part NAME      bugs of one file of the bank
 *   --all-tests      every test, not the named ones             --limit SECONDS  for one bug (300)
 *   --cited          only those of the named files that cite the bug's rule
 *   --list           prints the bank          --skip-clean     does not run the named tests without a bug first
 * Ends with 1 if a bug survived, hung or could not be planted.
 */
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../scripts/repository-files.ts";
import { bank } from "./bank/bank.ts";
import { copyRepository } from "./scratch-copy.ts";
import { summarize } from "./summary.ts";
import { runTests, tryBug, type Verdict } from "./try-bug.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    part: { type: "string" },
    "all-tests": { type: "boolean", default: false },
    "skip-clean": { type: "boolean", default: false },
    cited: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    limit: { type: "string", default: "300" },
  },
});

const wanted = values.only?.split(",");
const parts = Object.entries(bank).filter(([part]) => values.part === undefined || part === values.part);
const bugs = parts.flatMap(([, all]) => all).filter(({ id }) => wanted === undefined || wanted.includes(id));
const limitSeconds = Number(values.limit);

async function tryAll(): Promise<number> {
  const { folder, remove } = copyRepository(repositoryRoot);
  // Ctrl-C as well: what runs in the copy is a group of its own and is ended by its limit at the latest.
  process.once("exit", remove);
  process.once("SIGINT", () => process.exit(130));
  const named = [...new Set(bugs.flatMap(({ tests }) => tests))];
  if (!values["skip-clean"] && !values["all-tests"] && named.length > 0) {
    const clean = await runTests(folder, named, limitSeconds + 60 * named.length);
    if (clean.outcome !== "survived") {
      console.log(`nothing was planted: without a bug the tests already fail: ${clean.by}`);
      return 1;
    }
  }
  const verdicts: Verdict[] = [];
  for (const bug of bugs) {
    const verdict = await tryBug(folder, bug, {
      limitSeconds,
      isCitedOnly: values.cited,
      ...(values["all-tests"] ? { tests: ["packages", "apps", "test"] } : {}),
    });
    verdicts.push(verdict);
    console.log(`${verdict.outcome.padEnd(11)} ${verdict.id} [${bug.rule}] ${verdict.seconds} s  ${verdict.by}`);
  }
  const summary = summarize(verdicts);
  for (const line of summary.lines) console.log(line);
  return summary.exitCode;
}

if (bugs.length === 0) {
  console.log("the bank has no such bug; --list shows all of them");
  process.exitCode = 2;
} else if (values.list) {
  for (const bug of bugs) console.log(`${bug.id.padEnd(36)} ${bug.rule.padEnd(5)} ${bug.file}`);
} else process.exitCode = await tryAll();
