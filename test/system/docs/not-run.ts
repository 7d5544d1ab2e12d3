// What the pages show and the test of the pages does not try, each with its reason. A row that fits nothing any more fails the test.
// No test lives here.

export interface NotRun {
  readonly page: string;
  /** How the command, or the block in `text`, begins. */
  readonly begins: string;
  readonly why: string;
}

const workers = "docs/guides/workers.md";
const several = "docs/guides/several-schedulers.md";
const simulator = "docs/guides/simulator.md";
const workflows = "docs/guides/workflows.md";
const longCampaign = "seconds to minutes of simulated runs; the campaigns of packages/sim run the same profiles";
const ownServer =
  "needs a PostgreSQL server of the reader's; test/system/crashes/kill-at-failpoints-postgres.test.ts starts schedulers on one";
const judgesMachine = "fails where the disk is slow or port 8080 is taken; test/system/cli/doctor.test.ts runs it";
const redrawn = "one moment of a terminal that is redrawn";

const examples = "examples/README.md";
const wordCount = "needs a worker with settings of its own; test/system/worker/word-count.test.ts starts one and runs it";
const pythonPackages = "docs/guides/python-packages.md";

export const notRun: readonly NotRun[] = [
  { page: examples, begins: "HTTP_PACKAGE_PRIVATE_HOSTS=", why: wordCount },
  { page: examples, begins: "npx astra run examples/workflows/word-count.json", why: wordCount },
  {
    page: pythonPackages,
    begins: "from astraflow_sdk import ExecutionContext",
    why: "test/system/worker/python-packages.test.ts runs such an adapter on a worker",
  },
  {
    page: pythonPackages,
    begins: "def open_page(ctx):",
    why: "needs a browser; packages/runtime/src/hosts/python-host.test.ts keeps a value in the same way",
  },
  {
    page: pythonPackages,
    begins: "from astraflow_sdk.testing import run_adapter",
    why: "test/system/cli/python-sdk.test.ts runs the tests of this harness",
  },
  {
    page: "examples/README.md",
    begins: "npx astra run examples/workflows/ask.json",
    why: "needs a server with a language model; test/system/packages/llm-package.test.ts has one of its own",
  },
  { page: "README.md", begins: "npm start", why: "test/repository/npm-start.test.ts runs it; here `astra up` stands for it" },
  { page: "README.md", begins: "✓  Load Welcome Config", why: `${redrawn}; apps/cli/src/runs/run-view.test.ts has such lines` },
  {
    page: workflows,
    begins: "✓  Open page",
    why: "needs a package that breaks its own schema; apps/cli/src/runs/run-view.test.ts has such a line",
  },
  { page: workflows, begins: "astra top ·", why: `${redrawn}; apps/cli/src/workers/top-command.test.ts has such lines` },
  {
    page: workflows,
    begins: "GET /packages/field",
    why: "needs two workers with different manifests of one version, as in packages/services/src/catalogue/catalogue.test.ts",
  },
  {
    page: workers,
    begins: '{"event":"refused"',
    why: "needs a worker that keeps an old secret; apps/worker/src/connection-advice.test.ts has the advice",
  },
  {
    page: workers,
    begins: '{"level":50',
    why: "needs certificates that are replaced one by one; apps/scheduler/src/credentials/tls-reloader.test.ts replaces them",
  },
  {
    page: workers,
    begins: '{"level":40,"event":"unhealthy"',
    why: "needs a disk that is nearly full; packages/runtime/src/scheduler-link/heartbeats.test.ts has one",
  },
  { page: "docs/guides/backup.md", begins: "npx astra doctor", why: judgesMachine },
  { page: "docs/guides/backup.md", begins: "npx astra backup --store", why: ownServer },
  { page: "docs/guides/backup.md", begins: "npx astra restore --store", why: ownServer },
  { page: several, begins: "createuser", why: ownServer },
  { page: several, begins: "createdb", why: ownServer },
  { page: several, begins: "export ASTRA_SCHEDULER_STORE", why: ownServer },
  { page: several, begins: "npx astra scheduler", why: ownServer },
  { page: several, begins: "npx astra worker", why: ownServer },
  { page: several, begins: "npx astra run", why: ownServer },
  { page: several, begins: "npx astra doctor", why: judgesMachine },
  { page: several, begins: "psql", why: ownServer },
  { page: several, begins: "lease ≥", why: "a formula" },
  { page: several, begins: "npm run ledger", why: "ten thousand tasks beside crashes take minutes" },
  { page: simulator, begins: "npx astra sim --seeds", why: longCampaign },
  { page: simulator, begins: "npx astra sim --profile", why: longCampaign },
  {
    page: "docs/protocol.md",
    begins: "W to S",
    why: "two frames in outline, with words in place of values; their fields are those of docs/schema",
  },
];
