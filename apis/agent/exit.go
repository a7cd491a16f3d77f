package agent

import "errors"

// Exit codes of the agent's commands, such as `controller backup`. The pod failure policy of the restore Job stops
// the Job after codes for which a retry cannot succeed. The Job's condition contains the code, so that the function
// can report the cause without reading pods or logs.
const (
	// ExitVersion means that the version of the server's image cannot use the backup.
	ExitVersion = 40
	// ExitUnclean means that the backup is from a server that did not stop cleanly, and that the image has a different
	// version. MySQL refuses to upgrade such data.
	ExitUnclean = 41
	// ExitDamaged means that the checksum or the file list of the archive does not match.
	ExitDamaged = 42
	// ExitMissing means that the archive or its manifest does not exist.
	ExitMissing = 43
	// ExitOccupied means that the data volume already contains a database from another source than this restore.
	ExitOccupied = 44
	// ExitNoSpace means that the data does not fit on the volume.
	ExitNoSpace = 45
	// ExitBroken means that no server starts from the backup, or that a table is damaged. Only the report of `controller
	// bootcheck` contains this code. No process exits with it.
	ExitBroken = 46
	// ExitNoData means that the volume of an instance has lost its data.
	ExitNoData = 47
	// ExitForeign means that a volume contains the data of another instance.
	ExitForeign = 48
	// ExitSettings means that a server does not start or accept clients with the settings.
	ExitSettings = 49
	// ExitOutside means that data of the instance is stored outside of its data directory.
	ExitOutside = 50
	// ExitSource means that the volume to import contains no data directory that a server of the product can use.
	ExitSource = 51
	// ExitTarget means that the archived binary log does not lead from the backup to the requested time or transaction.
	ExitTarget = 52
)

// PermanentExits returns the exit codes of a restore for which a retry cannot succeed, in ascending order.
func PermanentExits() []int32 {
	return []int32{ExitVersion, ExitUnclean, ExitDamaged, ExitMissing, ExitOccupied, ExitNoSpace, ExitSource, ExitTarget}
}

// Exit codes for which a retry may succeed.
const (
	// ExitFailed means any other failure.
	ExitFailed = 1
	// ExitBusy means that a server is using the data, or that another run of the command is in progress.
	ExitBusy = 75
	// ExitStopped means that the program was stopped by SIGTERM.
	ExitStopped = 143
)

// An ExitError is an error with the exit code of the program.
type ExitError struct {
	Code int
	Err  error
	// Lacks is the number of bytes that are missing on the volume. It is 0 if the number is unknown or the error has
	// another cause.
	Lacks int64
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode returns the exit code of the program. The kong library, which parses the command line, calls it.
func (e *ExitError) ExitCode() int { return e.Code }

// CodeOf returns the exit code of the agent for the error of its command. It is 0 if err is nil.
func CodeOf(err error) int {
	coded := new(ExitError)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &coded):
		return coded.Code
	}
	return ExitFailed
}
