/** What a planted bug is, and how it is put into a file. The bugs themselves are in bank/, one file for each part of the product. */

/** A change of one line (or of few) that breaks a rule and that no type check finds. */
export interface PlantedBug {
  /** Short and unique: `npm run planted -- --only <id>`. */
  id: string;
  /** The rule of docs/spec.md that no longer holds with it. */
  rule: string;
  /** Below the repository's root. */
  file: string;
  /** Occurs exactly once in the file. */
  find: string;
  replace: string;
  /** Test files (or folders) of which one must fail. */
  tests: readonly string[];
  /** Where the simulator must find it as well, or alone: words of `astra sim`. */
  sim?: readonly string[];
}

/** The text with the bug in it; throws if the text to find is not there exactly once, because such a bug no longer means what it says. */
export function plantBug(text: string, bug: PlantedBug): string {
  const parts = text.split(bug.find);
  if (parts.length !== 2)
    throw new Error(`${bug.id}: its text occurs ${parts.length - 1} times in ${bug.file}, and must occur once: ${bug.find}`);
  if (bug.find === bug.replace) throw new Error(`${bug.id} changes nothing`);
  return parts.join(bug.replace);
}
