// The records of a zip file, as far as a package uses them: no zip64, no encryption, one disk. Offsets are those of the zip specification.

export const localHeader = { signature: 0x0403_4b50, bytes: 30 } as const;
export const centralHeader = { signature: 0x0201_4b50, bytes: 46 } as const;
export const endRecord = { signature: 0x0605_4b50, bytes: 22 } as const;
export const descriptorSignature = 0x0807_4b50;

export const methods = { stored: 0, deflated: 8 } as const;

export const flags = {
  /** Sizes and checksum follow the data. */
  descriptor: 0x0008,
  utf8: 0x0800,
  /** How hard the compressor tried; of no importance for a reader. */
  compressionLevel: 0x0006,
} as const;

/** Extra fields that give an entry another size, another name, or make it a link or a device. */
export const refusedExtraFields: Readonly<Record<number, string>> = {
  1: "uses zip64",
  0x00_0d: "has Unix fields of PKWARE, which can make it a link or a device",
  0x75_6e: "has Unix fields of ASi, which can make it a link or a device",
  0x70_75: "has a second name in an extra field",
  0x99_01: "is encrypted",
};

/** Upper half of the external attributes: the mode of the file on Unix. */
export const fileMode = {
  typeMask: 0o170_000,
  regular: 0o100_000,
  directory: 0o040_000,
  symlink: 0o120_000,
  specialBits: 0o7_000,
  executable: 0o100,
} as const;

export interface ZipEntry {
  readonly name: string;
  readonly kind: "file" | "folder";
  readonly method: number;
  readonly crc32: number;
  readonly compressedBytes: number;
  readonly bytes: number;
  readonly isExecutable: boolean;
  /** Where its local header begins. */
  readonly headerOffset: number;
}
