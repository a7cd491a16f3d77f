// Package archive copies the data directory of a stopped server into a file and
// back: a .tar.zst, which tar --zstd -xf unpacks, beside a manifest.json that
// says whose data it is and proves that it is whole.
package archive

// The archive's name is its proof: it appears by a rename, after its manifest,
// and only when both were read back from disk. A file NAME.partial is of a run
// that is under way or was cut off.
//
//	backup  NAME.partial ─ fsync ─ read back ─ manifest.json ─ NAME
//	restore .restore-SUM/ ─ sums hold ─ fsync ─ .restored.json ─ data/
//
// An Unpack is a restore to a folder of the backup volume, which a server is
// tried on and which goes before the next backup.
