// Package backup takes and verifies one backup of an instance for a deletion, an image change, a Backup object or the
// schedule. A Job copies the data. The catalog on the volume or in the store records the backup first. The phase of
// the BackupRecord is updated after that.
package backup
