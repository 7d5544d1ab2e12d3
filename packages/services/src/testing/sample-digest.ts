// The digest that tests give to services. Like the real one it differs wherever the texts do: a digest of the length alone took two users for one.

import { createHash } from "node:crypto";

export const sampleDigest = (text: string): string => createHash("sha256").update(text).digest("base64url").slice(0, 22);
