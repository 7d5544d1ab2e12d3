/**
 * What a checkout still needs before a command can run: the deciding half of the set-up, pure, so that every kind of
 * machine can be tested on one. Looking at the machine and changing it is setup.mjs.
 */

/** The oldest Node that runs the sources as they are (type stripping and node:sqlite without flags). */
const nodeMin = [22, 19];

/** The oldest Python for which the tools of `npm run conform` are listed. */
const pythonMin = [3, 11];
/** The oldest Python that runs packages: the tests run some. */
const packagePythonMin = [3, 10];
const pythonPackages = ["python3", "python3-venv"];

/** @type {readonly import("./setup-plan.d.mts").SystemPackage[]} */
export const systemPackages = [
  {
    name: "postgresql",
    probe: "/usr/lib/postgresql/*/bin/initdb",
    neededBy: ["test"],
    why: "the store's contract suite runs on a real PostgreSQL server",
  },
  {
    name: "pgbouncer",
    probe: "/usr/sbin/pgbouncer",
    neededBy: ["test"],
    why: "the store's contract suite also runs through a pooler that hands every transaction to another session",
  },
  {
    name: "openssl",
    probe: "/usr/bin/openssl",
    neededBy: ["test"],
    why: "the tests of TLS make authorities and certificates of their own",
  },
  {
    name: "curl",
    probe: "/usr/bin/curl",
    neededBy: ["test"],
    why: "the test of the docs runs their commands, and some are curl",
  },
  {
    name: "chromium",
    probe: "/usr/bin/chromium",
    neededBy: ["test"],
    why: "the tests of the package browser drive a real page; without it they are skipped",
    isOptional: true,
  },
];

/** @type {import("./setup-plan.d.mts").PlanSetUp} */
export const planSetUp = (facts) => {
  /** @type {import("./setup-plan.d.mts").SetupStep[]} */
  const steps = [];
  if (!facts.hasModules) steps.push({ type: "install-modules", why: "node_modules is missing" });
  else if (facts.stampHash === null && facts.installedAgrees)
    steps.push({ type: "adopt-modules", why: "node_modules was installed by hand and agrees with package-lock.json" });
  else if (facts.stampHash === null)
    steps.push({ type: "install-modules", why: "node_modules does not agree with package-lock.json" });
  else if (facts.stampHash !== facts.lockHash) steps.push({ type: "install-modules", why: "package-lock.json has changed" });

  if (facts.command === "conform") steps.push(...planPythonTools(facts));
  if (facts.command === "test") steps.push(...planPython(facts, packagePythonMin, "to test packages for Python"));
  const wanted = facts.missing.filter((row) => row.neededBy.includes(facts.command));
  steps.push(
    ...planSystemPackages(
      facts,
      wanted.filter((row) => row.isOptional !== true),
      false,
    ),
  );
  steps.push(
    ...planSystemPackages(
      facts,
      wanted.filter((row) => row.isOptional === true),
      true,
    ),
  );
  return steps;
};

/** @type {(facts: import("./setup-plan.d.mts").MachineFacts, wanted: readonly import("./setup-plan.d.mts").SystemPackage[], isOptional: boolean) => import("./setup-plan.d.mts").SetupStep[]} */
function planSystemPackages(facts, wanted, isOptional) {
  if (wanted.length === 0) return [];
  const names = wanted.map((row) => row.name);
  const why = wanted.map((row) => `${row.name}: ${row.why}`).join("; ");
  if (facts.isRoot && facts.hasApt) return [{ type: "install-packages", names, why, ...(isOptional && { isOptional }) }];
  const way = facts.hasApt
    ? `run: sudo apt-get install -y --no-install-recommends ${names.join(" ")}`
    : `install ${names.join(" and ")} with this system's package manager, so that ${wanted.map((row) => row.probe).join(" and ")} exists`;
  // A running system without its extras is still useful; a test run without its databases would be half a verdict.
  return [{ type: facts.command === "start" || isOptional ? "tell" : "refuse", why: `missing ${why}; ${way}` }];
}

/** @type {(facts: import("./setup-plan.d.mts").MachineFacts) => import("./setup-plan.d.mts").SetupStep[]} */
function planPythonTools(facts) {
  const steps = planPython(facts, pythonMin, "to compare the API with its document");
  if (steps.some(({ type }) => type === "refuse")) return steps;
  if (facts.toolsStampHash === null) steps.push({ type: "install-python-tools", why: "they are missing" });
  else if (facts.toolsStampHash !== facts.toolsHash) steps.push({ type: "install-python-tools", why: "their list has changed" });
  return steps;
}

/** @type {(facts: import("./setup-plan.d.mts").MachineFacts, min: readonly number[], purpose: string) => import("./setup-plan.d.mts").SetupStep[]} */
function planPython(facts, min, purpose) {
  if (facts.python !== null && isAtLeast(facts.python, min)) return [];
  const has = facts.python === null ? "there is none" : `this one is ${facts.python}`;
  const why = `Python ${min.join(".")} or newer with venv is needed ${purpose}; ${has}`;
  if (facts.python === null && facts.isRoot && facts.hasApt) return [{ type: "install-packages", names: pythonPackages, why }];
  const way = facts.hasApt ? `run: sudo apt-get install -y --no-install-recommends ${pythonPackages.join(" ")}` : "install it";
  return [{ type: "refuse", why: `${why}. To continue, ${way}, and try again.` }];
}

/** @type {(version: string, min: readonly number[]) => boolean} */
const isAtLeast = (version, min) => {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const [majorMin = 0, minorMin = 0] = min;
  return major > majorMin || (major === majorMin && minor >= minorMin);
};

/** @type {import("./setup-plan.d.mts").IsPythonNewEnough} */
export const isPythonNewEnough = (version) => version !== null && isAtLeast(version, pythonMin);

/** @type {import("./setup-plan.d.mts").ChooseNode} */
export const chooseNode = ({ bundled, own }) => {
  if (bundled !== null && isAtLeast(bundled, nodeMin)) return "bundled";
  if (isAtLeast(own, nodeMin)) return "own";
  const has = bundled === null ? "and npm brought none for this platform" : `and the one in node_modules is ${bundled}`;
  return { refusal: `Node ${nodeMin.join(".")} or newer is needed; this one is ${own} ${has}. Put a newer Node first on PATH.` };
};

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isRecord(value) {
  return typeof value === "object" && value !== null;
}

/** @type {import("./setup-plan.d.mts").AgreeModules} */
export const agreeModules = (lock, installed) => {
  if (!isRecord(lock) || !isRecord(installed) || !isRecord(lock["packages"]) || !isRecord(installed["packages"])) return false;
  for (const [path, entry] of Object.entries(lock["packages"])) {
    // Links and the workspaces themselves are in no registry; optional binaries of other platforms are rightly absent.
    if (!path.startsWith("node_modules/") || !isRecord(entry) || entry["link"] || entry["optional"]) continue;
    const there = installed["packages"][path];
    if (!isRecord(there) || there["version"] !== entry["version"] || there["integrity"] !== entry["integrity"]) return false;
  }
  return true;
};
