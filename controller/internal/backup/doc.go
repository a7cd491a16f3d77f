// Package backup takes and verifies one backup of an instance for a deletion, an image change, a Backup object or the
// schedule. The Job copies the data. The catalog on the volume or in the store contains the backup before its
// BackupRecord says that it is verified.
package backup
