// Package backup takes and verifies one backup of an instance, whatever its origin: a deletion, another image, a request or the schedule.
// The Job copies, and the volume or the store knows the backup before its record says that it is proven.
package backup
