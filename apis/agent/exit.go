package agent

import "errors"

// Exit codes of the agent's commands, such as `controller backup`. The restore Job's
// pod failure policy ends it at once on those that no retry can mend, and the
// Job's condition carries the code, so that the function can say what happened
// without reading pods or logs.
const (
	// ExitVersion: the server's image is of a version that cannot use the backup.
	ExitVersion = 40
	// ExitUnclean: the server that wrote the backup did not stop cleanly, and the
	// image is of another version, which MySQL refuses to upgrade to.
	ExitUnclean = 41
	// ExitDamaged: the archive's checksum or listing does not hold.
	ExitDamaged = 42
	// ExitMissing: the archive or its manifest is not on the backup volume.
	ExitMissing = 43
	// ExitOccupied: the data volume already holds a database, and not the one that
	// an earlier run of the same restore finished.
	ExitOccupied = 44
	// ExitNoSpace: the data does not fit on the volume.
	ExitNoSpace = 45
	// ExitBroken: a server does not start from the backup, or finds a table broken.
	// Only the report of `controller bootcheck` has it: no process ends with it.
	ExitBroken = 46
	// ExitNoData: a volume holds no data where an instance has had some.
	ExitNoData = 47
	// ExitForeign: a volume holds the data of another instance.
	ExitForeign = 48
	// ExitSettings: a server does not start, or does not serve, with the settings.
	ExitSettings = 49
	// ExitOutside: data of the instance is stored outside of its data directory.
	ExitOutside = 50
)

// PermanentExits are the exit codes of a restore that no retry can mend,
// ascending.
func PermanentExits() []int32 {
	return []int32{ExitVersion, ExitUnclean, ExitDamaged, ExitMissing, ExitOccupied, ExitNoSpace}
}

// Exit codes that are worth a retry.
const (
	// ExitFailed: something that is not told apart further.
	ExitFailed = 1
	// ExitBusy: a server runs on the data, or another run is under way.
	ExitBusy = 75
	// ExitStopped: told to stop by SIGTERM.
	ExitStopped = 143
)

// An ExitError says with which code the program ends.
type ExitError struct {
	Code int
	Err  error
	// Lacks is how many bytes more the volume must have, as far as it is known; 0 where
	// that is not so.
	Lacks int64
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode for kong.
func (e *ExitError) ExitCode() int { return e.Code }

// CodeOf an error that a command ended with.
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
