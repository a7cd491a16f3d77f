package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// A Found is what a survey says of one folder of a backup volume. The archive in it was read
// as a whole, and is what its manifest says, unless there is a problem; whose it is nobody but
// the manifest says, and whoever can write to the volume can write one.
type Found struct {
	// Folder in the root of the volume.
	Folder string `json:"folder"`
	// Problem in words; empty where the archive can be restored.
	Problem string `json:"problem,omitempty"`

	// Record and Spec, as the manifest has it, but for what only a record had.
	Record string             `json:"record,omitempty"`
	Spec   v1.MySQLBackupSpec `json:"spec"`
	// FinishedAt is when the archive was written.
	FinishedAt time.Time `json:"finishedAt"`
}

// foundPrefix marks the lines of a log that are findings.
const foundPrefix = "found "

// maxFound in bytes of such a line.
const maxFound = 64 << 10

// Line of a log.
func (f *Found) Line() (string, error) {
	raw, err := json.Marshal(f)
	if err != nil {
		return "", fmt.Errorf("cannot write what was found: %w", err)
	}
	return foundPrefix + string(raw), nil
}

// ParseFound reads such a line; false for any other.
func ParseFound(line string) (Found, bool) {
	text, ok := strings.CutPrefix(line, foundPrefix)
	f := Found{}
	if !ok || len(line) > maxFound || json.Unmarshal([]byte(text), &f) != nil || f.Folder == "" {
		return Found{}, false
	}
	return f, true
}
