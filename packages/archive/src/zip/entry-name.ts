// Which names an entry of an archive may have: the same file on every system, inside the folder it is unpacked into, and nobody else's.

/** Bytes of one part of a path that every file system takes. */
const partBytesMax = 255;
const pathBytesMax = 1_024;
const depthMax = 24;
const reservedOnWindows = /^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)/i;

/** Why a path with slashes may not be the name of a file in an archive; null: it may. */
export function findNameProblem(name: string): string | null {
  if (name === "") return "has no name";
  if (Buffer.byteLength(name) > pathBytesMax) return `has a name of more than ${pathBytesMax} bytes`;
  // Control, format and unassigned characters, lone surrogates: none of them can be seen, some change how the name is read.
  if (/\p{C}/u.test(name)) return "has an invisible character in its name";
  if (name.includes("\\")) return "has a backslash in its name";
  if (/^[A-Za-z]:/.test(name)) return "names a drive";
  if (name.startsWith("/")) return "has an absolute path";
  if (/[<>:"|?*]/.test(name)) return 'has one of < > : " | ? * in its name, which not every system allows';
  if (name !== name.normalize("NFC")) return "has a name that is not in Unicode normal form C";
  const parts = name.split("/");
  if (parts.length > depthMax) return `lies more than ${depthMax} folders deep`;
  for (const part of parts) {
    if (part === "") return "has an empty part in its path";
    if (part === "." || part === "..") return `has "${part}" in its path`;
    if (/[. ]$/.test(part) || part.startsWith(" "))
      return "has a part of its path that begins or ends with a space, or ends with a dot";
    if (Buffer.byteLength(part) > partBytesMax) return `has a part of its path of more than ${partBytesMax} bytes`;
    if (reservedOnWindows.test(part)) return `has "${part}" in its path, which is a device on Windows`;
  }
  return null;
}

/** What file systems that ignore case or normal forms would see. */
const foldName = (name: string): string => name.normalize("NFKC").toUpperCase().toLowerCase().normalize("NFKC");

interface TakenName {
  readonly spelling: string;
  readonly kind: "file" | "folder";
  /** Listed by an entry of its own, not only as a part of other paths. */
  isListed: boolean;
}

/** The names that an archive has used so far. Two that are one file on some system are refused. */
export class EntryNames {
  readonly #taken = new Map<string, TakenName>();

  /** Why the name cannot be added; null: it was. */
  add(name: string, kind: TakenName["kind"]): string | null {
    const parts = name.split("/");
    for (let count = 1; count < parts.length; count++) {
      const problem = this.#take(parts.slice(0, count).join("/"), "folder", false);
      if (problem !== null) return problem;
    }
    return this.#take(name, kind, true);
  }

  #take(spelling: string, kind: TakenName["kind"], isListed: boolean): string | null {
    const folded = foldName(spelling);
    const taken = this.#taken.get(folded);
    if (taken === undefined) {
      this.#taken.set(folded, { spelling, kind, isListed });
      return null;
    }
    if (taken.spelling !== spelling) return `differs from "${taken.spelling}" only by case or by how its letters are encoded`;
    if (taken.kind !== kind) return `is a file in one place and a folder in another`;
    if (taken.isListed && isListed) return "is listed twice";
    taken.isListed ||= isListed;
    return null;
  }
}
