// What holds a hook back, as far as the system permits it: namespaces in which it sees no process but its own, no network, nothing of the
// worker's files, and in which nothing but its package's folder can be written; and limits of what it may use.

import { runProcess } from "./limited-process.ts";

/** What held a hook back, for the event and the log. */
export interface HookSandbox {
  readonly network: "none" | "open";
  /** `package`: its folder is all that it can write, and the worker's own files are not there. */
  readonly files: "package" | "open";
  readonly processes: "own" | "open";
  readonly limits: "prlimit" | "none";
  readonly env: "empty";
}

/** All that a hook sees of the environment. */
export const hookPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** A user namespace of its own where the worker is not root: only root may make the others. */
const asUser = (user: string): string[] => (process.getuid?.() === 0 ? [] : ["--user", user]);

/** A network without any device but a loopback that is down. */
const networkless = (): string[] => ["unshare", "--net", ...asUser("--map-current-user")];

/**
 * Runs as the first process of the namespaces: `setup FOLDER HIDDEN... -- COMMAND...`. The folder is the working directory when what hides
 * it is mounted, and is put in its place again from there.
 */
const setupScript = `
set -e
folder=$1
cd "$folder"
shift
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mount -t tmpfs -o size=64k,mode=755 hidden "$1"
  elif [ -e "$1" ]; then mount --bind /dev/null "$1"
  fi
  shift
done
shift
mkdir -p "$folder"
mount --no-canonicalize --bind . "$folder"
while read -r _ point _ options _; do
  point=$(printf %b "$point")
  case $point in "$folder" | /proc/*) continue ;; esac
  [ -e "$point" ] || continue
  flags=remount,bind,ro
  for flag in nosuid nodev noexec noatime nodiratime relatime; do
    case ",$options," in *",$flag,"*) flags=$flags,$flag ;; esac
  done
  mount -o "$flags" "$point"
done < /proc/self/mounts
cd "$folder"
exec "$@"
`;

/** Without capabilities nothing of it can be undone. */
const withoutCapabilities = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"];

function inNamespaces(folder: string, hiddenPaths: readonly string[]): string[] {
  const namespaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
  const setup = ["/bin/sh", "-c", setupScript, "setup", folder, ...hiddenPaths, "--"];
  return ["unshare", ...asUser("--map-root-user"), ...namespaces, ...setup, ...withoutCapabilities];
}

/** Tried out, because containers and kernels differ in what they permit. */
export async function detectSandbox(folder: string, hiddenPaths: readonly string[]): Promise<HookSandbox> {
  const works = async ([command = "", ...args]: readonly string[]) => {
    const end = await runProcess({ command, args: [...args, "true"], cwd: folder, env: { PATH: hookPath }, timeMsMax: 10_000 });
    return end.of === "exited" && end.code === 0;
  };
  const limits = (await works(["prlimit", "--core=0"])) ? "prlimit" : "none";
  if (await works(inNamespaces(folder, hiddenPaths)))
    return { network: "none", files: "package", processes: "own", limits, env: "empty" };
  const network = (await works(networkless())) ? "none" : "open";
  return { network, files: "open", processes: "open", limits, env: "empty" };
}

/** The words in front of a command that put it into the sandbox. */
export function enterSandbox({ files, network }: HookSandbox, folder: string, hiddenPaths: readonly string[]): string[] {
  if (files === "package") return inNamespaces(folder, hiddenPaths);
  return network === "none" ? networkless() : [];
}
