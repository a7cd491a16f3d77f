// Package archive copies the data directory of a stopped server into a file and back. The file is a .tar.zst, which
// tar --zstd -xf unpacks. The manifest.json next to it contains the identity of the data and its checksums.
package archive

// An archive with its final name is complete. A backup writes the archive as NAME.partial, reads it back from disk,
// and writes its manifest. It renames the archive last. A file NAME.partial belongs to a run that is in progress or
// was interrupted.
//
//	backup  NAME.partial ─ fsync ─ read back ─ manifest.json ─ NAME
//	restore .restore-SUM/ ─ checksums hold ─ fsync ─ .restored.json ─ data/
