/**
 * What a checkout still needs before a command can run: the deciding half of the set-up, pure, so that every kind of
 * machine can be tested on one. Looking at the machine and changing it is setup.mjs.
 */

/** The oldest Node that runs the sources as they are (type stripping and node:sqlite without flags). */
const nodeMin = [22, 19];

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

  const wanted = facts.missing.filter((row) => row.neededBy.includes(facts.command));
  if (wanted.length === 0) return steps;
  const names = wanted.map((row) => row.name);
  const why = wanted.map((row) => `${row.name}: ${row.why}`).join("; ");
  if (facts.isRoot && facts.hasApt) steps.push({ type: "install-packages", names, why });
  else {
    const way = facts.hasApt
      ? `run: sudo apt-get install -y --no-install-recommends ${names.join(" ")}`
      : `install ${names.join(" and ")} with this system's package manager, so that ${wanted.map((row) => row.probe).join(" and ")} exists`;
    // A running system without its extras is still useful; a test run without its databases would be half a verdict.
    steps.push({ type: facts.command === "start" ? "tell" : "refuse", why: `missing ${why}; ${way}` });
  }
  return steps;
};

/** @type {(version: string) => boolean} */
const isNewEnough = (version) => {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const [majorMin = 0, minorMin = 0] = nodeMin;
  return major > majorMin || (major === majorMin && minor >= minorMin);
};

/** @type {import("./setup-plan.d.mts").ChooseNode} */
export const chooseNode = ({ bundled, own }) => {
  if (bundled !== null && isNewEnough(bundled)) return "bundled";
  if (isNewEnough(own)) return "own";
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
