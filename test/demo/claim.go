package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// Example of the MySQL operator that this product replaces: its claim, and the SQL statements that are run on the
// server.
const (
	claimFile   = "examples/original-claim/claim.yaml"
	sessionFile = "examples/original-claim/session.sql"
)

// A claim contains the fields of a claim that the demo reads. A MySQL without a claim has the same fields.
type claim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   v1.MySQLSpec `json:"spec"`
	Status struct {
		v1.MySQLStatus `json:",inline"`

		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// line returns the line that the demo prints about the state of the claim. During a deletion, it contains the phase and
// the progress.
func (c claim) line() string {
	d := c.Status.Deletion
	if c.DeletionTimestamp == nil || d == nil || d.Phase == "" {
		return c.Status.Message
	}
	return fmt.Sprintf("%-10s %3d%%  %s", d.Phase, d.Percent, d.Message)
}

// ready reports whether the claim's condition Ready is True.
func (c claim) ready() bool {
	for _, k := range c.Status.Conditions {
		if k.Type == "Ready" {
			return k.Status == metav1.ConditionTrue
		}
	}
	return false
}

// An event is a watch event in kubectl's output.
type event struct {
	Type   string `json:"type"`
	Object claim  `json:"object"`
}

// errGone means that the object was deleted.
var errGone = errors.New("the object is deleted")

// follow watches the claim with kubectl and prints each new status line, until done returns true.
func (d *demo) follow(ctx context.Context, done func(claim) bool) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	for {
		finished, err := d.watch(ctx, done)
		if finished || err != nil {
			return err
		}
		// The watch has ended, because the API server closes each watch after a while. Start another one.
		if err := pause(ctx); err != nil {
			return fmt.Errorf("the %s is not as it should be after %s: %w", d.api.noun, d.timeout, err)
		}
	}
}

func (d *demo) watch(ctx context.Context, done func(claim) bool) (finished bool, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := d.kube.process(ctx, command{
		args: []string{"get", d.api.resource, d.name, "--watch", "--output-watch-events", "--output=json"}})
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	finished, err = d.read(out, done)
	stop()
	_ = cmd.Wait() // It was stopped, or its standard error contains the reason.
	if strings.Contains(complaint.String(), "(NotFound)") {
		return true, errGone
	}
	return finished, err
}

func (d *demo) read(events io.Reader, done func(claim) bool) (finished bool, err error) {
	in := json.NewDecoder(events)
	for {
		var e event
		if in.Decode(&e) != nil {
			return false, nil //nolint:nilerr // The watch has ended.
		}
		if e.Type == "DELETED" {
			return true, errGone
		}
		if line := e.Object.line(); line != "" && line != d.last {
			d.last = line
			d.screen.sayf("%s", line)
		}
		if done(e.Object) {
			return true, nil
		}
	}
}

// pause waits for a moment before a watch or a check is repeated. It returns the error of ctx if ctx ends before.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(500 * time.Millisecond):
		return nil
	}
}
