package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Found describes one directory of a backup volume, as reported by `controller survey`. If Problem is empty, the
// archive was read completely and matches its manifest. The owner in the manifest is untrusted, because any user with
// write access to the volume can write a manifest.
type Found struct {
	// Dir is the name of the directory in the root of the volume.
	Dir string `json:"folder"`
	// Problem is the reason why the archive cannot be restored, or "" if it can be restored.
	Problem string `json:"problem,omitempty"`

	// Record is the name of the archive's BackupRecord, and Spec is its spec. Both come from the manifest. Fields of
	// Spec that are not in the manifest are empty.
	Record string              `json:"record,omitempty"`
	Spec   v1.BackupRecordSpec `json:"spec"`
	// FinishedAt is the time at which the archive was completed.
	FinishedAt time.Time `json:"finishedAt"`
}

// foundPrefix is the prefix of log lines that contain a Found.
const foundPrefix = "found "

// maxFound is the maximum length of a log line with a Found, in bytes.
const maxFound = 64 << 10

// Line returns the Found as a line of the survey Job's log, which ParseFound parses.
func (f *Found) Line() (string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("cannot encode the log line: %w", err)
	}
	return foundPrefix + string(raw), nil
}

// ParseFound parses a line of the survey Job's log. It returns false for lines that contain no Found.
func ParseFound(line string) (Found, bool) {
	text, ok := strings.CutPrefix(line, foundPrefix)
	f := Found{}
	if !ok || len(line) > maxFound || json.Unmarshal([]byte(text), &f) != nil || f.Dir == "" {
		return Found{}, false
	}
	return f, true
}
