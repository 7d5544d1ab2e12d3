// CRC-32C (Castagnoli), the checksum of our own append logs. Node's zlib has only the other polynomial.

const table = makeTable();

/** Continues from `crc`, the checksum of what came before; 0 at the beginning. */
export function crc32c(bytes: Uint8Array, crc = 0): number {
  let rest = ~crc;
  for (let index = 0; index < bytes.length; index++) {
    rest = (table[(rest ^ (bytes[index] as number)) & 0xff] as number) ^ (rest >>> 8);
  }
  return ~rest >>> 0;
}

function makeTable(): Int32Array {
  const made = new Int32Array(256);
  for (let byte = 0; byte < 256; byte++) {
    let rest = byte;
    for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0x82f63b78 : rest >>> 1;
    made[byte] = rest;
  }
  return made;
}
