// Reads instants such as 2026-03-01T12:00:00+01:00.

const instantPattern = /^(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-])(\d{2}):(\d{2}))$/;

/** An instant with its zone, in ms since 1970; null if the text is not one. By arithmetic, because this package uses no clock. */
export function parseInstant(text: string): number | null {
  const parts = instantPattern.exec(text);
  if (parts === null) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(1, 7).map(Number);
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 24 || minute > 59 || second > 60) return null;
  const ms = Number((parts[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const zone = (parts[8] === "-" ? -1 : 1) * (Number(parts[9] ?? 0) * 60 + Number(parts[10] ?? 0));
  return (((daysSinceEpoch(year, month, day) * 24 + hour) * 60 + minute - zone) * 60 + second) * 1_000 + ms;
}

/** Days since 1970-01-01 in the Gregorian calendar. Years begin in March here, so that a leap day is the last day of its year. */
function daysSinceEpoch(year: number, month: number, day: number): number {
  const y = month <= 2 ? year - 1 : year;
  const ofYear = Math.floor((153 * (month + (month > 2 ? -3 : 9)) + 2) / 5) + day - 1;
  return y * 365 + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + ofYear - 719_468;
}
