package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TerminationLog is the file from which the kubelet reads a container's termination message.
const TerminationLog = "/dev/termination-log"

// maxError and maxText keep a report below the kubelet's limit of 4096 bytes.
const (
	maxError = 1024
	maxText  = 256
	// MaxManifest is the maximum size of a manifest in a report in bytes.
	MaxManifest = 2048
)

// A Report is the result of a command of the agent. It is one JSON object of at most 4096 bytes.
type Report struct {
	// Command is the name of the command, such as backup, restore or bootcheck.
	Command string `json:"command"`
	// OK is true if the command succeeded. This includes a command that had nothing to do, for example because the
	// database already exists.
	OK bool `json:"ok"`
	// ExitCode is the exit code of the program, such as ExitDamaged. It is 0 after success.
	ExitCode int `json:"exitCode"`
	// Error is the error message with the next step.
	Error string `json:"error,omitempty"`
	// Empty is true if there was nothing to back up, because the volume never contained data.
	Empty bool `json:"empty,omitempty"`
	// Already is true if an earlier run had already done the work. This run then verified the existing archive, or found
	// the existing data.
	Already bool `json:"already,omitempty"`

	// Lacks is the number of bytes that are missing on the volume for a backup, or 0 if it is unknown.
	Lacks int64 `json:"lacks,omitempty"`

	// Archive is the name of the archive in its directory. Size is its size in bytes, and SHA256 its checksum. They
	// are set for a verified backup.
	Archive string `json:"archive,omitempty"`
	Size    int64  `json:"size,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Manifest is the manifest of an archive in a store, JSON of at most MaxManifest bytes. The controller writes
	// it next to the archive.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// DataBytes is the size of the unpacked data. Entries is the number of its files, directories and links.
	DataBytes int64 `json:"dataBytes,omitempty"`
	Entries   int64 `json:"entries,omitempty"`
	// Tables is the number of tables that a restore test found intact.
	Tables int64 `json:"tables,omitempty"`

	// Version is the version of the server that wrote the data, as given to the program or found in the files. For
	// a restore test, it is the version of the server that used the data.
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if the server that wrote the data stopped cleanly. Shutdown describes how this was
	// determined.
	CleanShutdown bool   `json:"cleanShutdown"`
	Shutdown      string `json:"shutdown,omitempty"`

	// Seconds is the time that the command took.
	Seconds float64 `json:"seconds"`
}

// Printable returns a copy of the report whose strings are shortened and contain no control sequences. The report is
// untrusted, because another program may have written it.
func (r *Report) Printable() *Report {
	short := *r
	short.Error = v1.PrintableText(r.Error, maxError)
	short.Archive, short.Version, short.Shutdown = v1.PrintableText(r.Archive, maxText), v1.PrintableText(r.Version,
		maxText), v1.PrintableText(r.Shutdown, maxText)
	return &short
}

// Encode returns the report as one line.
func (r *Report) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.Printable()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Save writes the report to a file. The kubelet creates the termination log. If it does not exist, the program does
// not run in a pod, and Save does nothing.
func (r *Report) Save(path string) error {
	if path == "" {
		return nil
	}
	raw, err := r.Encode()
	if err != nil {
		return err
	}
	flags := os.O_WRONLY | os.O_TRUNC
	if path != TerminationLog {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o644) //nolint:gosec // The caller specifies the file, which contains no secret.
	if errors.Is(err, fs.ErrNotExist) && path == TerminationLog {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// End sets the duration of the command, and its result from the command's error, or success if err is nil.
func (r *Report) End(seconds float64, err error) {
	r.Seconds = seconds
	r.OK, r.ExitCode = err == nil, CodeOf(err)
	if err != nil {
		r.Error = err.Error()
	}
	if coded, ok := errors.AsType[*ExitError](err); ok {
		r.Lacks = coded.Lacks
	}
}
