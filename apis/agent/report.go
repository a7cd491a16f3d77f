package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TerminationLog is where the kubelet reads a container's last words.
const TerminationLog = "/dev/termination-log"

// maxError and maxText keep a report below the 4096 bytes that it reads.
const (
	maxError = 1024
	maxText  = 256
	// MaxManifest in bytes of a manifest in a report.
	MaxManifest = 2048
)

// A Report is the last word of a command of the agent: one JSON object of at
// most 4096 bytes.
type Report struct {
	// Command is backup, restore, unpack, clone, import and what comes before it, bootcheck or initialize.
	Command string `json:"command"`
	// OK is true if all went well: a proven archive, nothing to archive, restored
	// data, a server that runs on it and finds all tables whole, or a database that
	// was made or is there.
	OK bool `json:"ok"`
	// ExitCode of the program, one of this package.
	ExitCode int `json:"exitCode"`
	// Error says what went wrong, and what to do.
	Error string `json:"error,omitempty"`
	// Empty is true if there was nothing to back up: the volume never held data.
	Empty bool `json:"empty,omitempty"`
	// Already is true if an earlier run had done it: its archive was proven once
	// more, its restored data found in place, or a database was there.
	Already bool `json:"already,omitempty"`

	// Lacks is how many bytes more its volume must have for a backup that did not fit; 0
	// where that is not known.
	Lacks int64 `json:"lacks,omitempty"`

	// Archive is the file's name within its folder, Size its bytes and SHA256 their
	// sum. A backup sets them when it is proven.
	Archive string `json:"archive,omitempty"`
	Size    int64  `json:"size,omitempty"`
	SHA256  string `json:"sha256,omitempty"`
	// Manifest of an archive in a store, as JSON of at most MaxManifest bytes: the
	// controller writes it beside the archive.
	Manifest json.RawMessage `json:"manifest,omitempty"`
	// DataBytes is the size of the unpacked data, Entries the number of files,
	// folders and links in it.
	DataBytes int64 `json:"dataBytes,omitempty"`
	Entries   int64 `json:"entries,omitempty"`
	// Tables that a server found whole. A restore test sets it.
	Tables int64 `json:"tables,omitempty"`

	// Version of the server that wrote the data: the one that the program was told,
	// or else the one that the files tell. For a restore test it is that of the
	// server that ran on the data.
	Version string `json:"version,omitempty"`
	// CleanShutdown is true if that server stopped cleanly, and Shutdown says why
	// it is thought so.
	CleanShutdown bool   `json:"cleanShutdown"`
	Shutdown      string `json:"shutdown,omitempty"`

	// Seconds that the run took.
	Seconds float64 `json:"seconds"`
}

// Printable is the report with texts that are short, and that a terminal can print.
// Who writes one may be no agent of ours.
func (r *Report) Printable() *Report {
	short := *r
	short.Error = v1.PrintableText(r.Error, maxError)
	short.Archive, short.Version, short.Shutdown = v1.PrintableText(r.Archive, maxText), v1.PrintableText(r.Version, maxText), v1.PrintableText(r.Shutdown, maxText)
	return &short
}

// Encode a report as one line.
func (r *Report) Encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.Printable()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Save a report to a file. The kubelet makes its own; where there is none,
// nobody wants to know.
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
	f, err := os.OpenFile(path, flags, 0o644) //nolint:gosec // The caller says which file, and it holds no secret.
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

// End of a run: how long it took, and its error, if any.
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
