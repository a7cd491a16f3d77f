// Package backup takes and verifies one backup of an instance for a deletion, an image change, a Backup object or the
// schedule. A Job copies the data. The controller then records the backup in the catalog on the volume or in the
// store, and finally updates the phase of the BackupRecord.
package backup
