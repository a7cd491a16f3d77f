package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

const (
	// planTime is the maximum time to wait for a plan.
	planTime = 5 * time.Minute
	// deleteTime is the maximum time for the deletion of the temporary instance.
	deleteTime = 30 * time.Second
	// planPrefix is the beginning of the name of a temporary instance.
	planPrefix = "recovery-plan-"
)

// plan prints the plan of a recovery. It creates a suspended instance with the spec of the new one, for which the
// controller computes the plan, and deletes it in any case.
func (c *restoreCommand) plan(ctx context.Context, s *session, claim *unstructured.Unstructured) (err error) {
	temporary := temporaryOf(claim)
	name, isCreated := temporary.GetName(), false
	defer func() {
		// The request may have created the instance although it has failed, or although the user has stopped the command.
		err = errors.Join(err, s.deleteTemporary(context.WithoutCancel(ctx), temporary, isCreated))
	}()
	if err := s.kube.Create(ctx, temporary, client.FieldValidation(metav1.FieldValidationStrict)); err != nil {
		return s.explain(err, "")
	}
	isCreated = true
	s.sayf("Created the suspended temporary %s %s/%s, for which nothing is restored.", s.kind.Kind, s.namespace, name)
	made, err := s.awaitOr(ctx, name, min(c.Timeout, planTime), lookAtPlan, "There is no plan yet. Check that the controller "+
		"and Crossplane are running")
	if err != nil {
		return err
	}
	plan := made.Status.Backups.RecoveryPlan
	if s.json {
		return writeJSON(s.out, plan)
	}
	if err := writePlan(s.out, s.namespace+"/"+c.From, plan); err != nil {
		return err
	}
	s.sayf("To start the recovery, run the same command without --dry-run.")
	return nil
}

// temporaryOf returns a suspended instance with the spec of another one. It has no labels or annotations, which other
// programs could act upon.
func temporaryOf(claim *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(claim.GroupVersionKind())
	out.SetNamespace(claim.GetNamespace())
	out.SetName(planPrefix + strings.ToLower(rand.Text()[:8]))
	spec, _, _ := unstructured.NestedMap(claim.Object, "spec") // It is a copy.
	spec["suspend"] = true
	delete(spec, "writeConnectionSecretToRef")
	out.Object["spec"] = spec
	return out
}

// lookAtPlan is a poll for a temporary instance. The wait is over when its status contains the plan, or why there is
// none.
func lookAtPlan(made *instance.Composite) (line string, done bool, err error) {
	if made.GetDeletionTimestamp() != nil {
		return "", true, plainf("the temporary instance is being deleted")
	}
	if b := made.Status.Backups; b != nil && b.RecoveryPlan != nil {
		return "", true, nil
	}
	for _, condition := range made.Conditions {
		if condition.Type == v1.ConditionAccepted && condition.Status == metav1.ConditionFalse {
			return "", true, plainf("the recovery is not possible: %s", strings.TrimSpace(condition.Message))
		}
	}
	return waitsFor(made), false, nil
}

// deleteTemporary deletes a temporary instance. It retries after errors that may pass. If it is not known whether the
// instance was created, it may not exist, and the user may not have the permission to create or delete it.
func (s *session) deleteTemporary(ctx context.Context, temporary *unstructured.Unstructured, isCreated bool) error {
	ctx, cancel := context.WithTimeout(ctx, deleteTime)
	defer cancel()
	for {
		err := s.kube.Delete(ctx, temporary)
		switch {
		case err == nil:
			s.sayf("Deleting the temporary %s %s/%s.", s.kind.Kind, s.namespace, temporary.GetName())
			return nil
		case kerrors.IsNotFound(err), !isCreated && !instance.IsPassing(err): // The API server has refused to create it.
			return nil
		case ctx.Err() == nil && instance.IsPassing(err):
			select {
			case <-ctx.Done():
			case <-time.After(s.pause):
			}
			continue
		}
		return plainf("the temporary instance cannot be deleted (%v). It uses no storage. Delete it: kubectl delete %s", err,
			instance.Decode(temporary).InKubectl())
	}
}

// writePlan prints a plan as a table.
func writePlan(w io.Writer, source string, p *v1.RecoveryPlan) error {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintf(t, "Recovery of %s to %s\n", source, printable(p.At)) //nolint:errcheck // Flush returns the error.
	for _, line := range planLines(p) {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], printable(line[1])) //nolint:errcheck // Flush returns the error.
	}
	return t.Flush()
}

// planLines returns the lines of a plan, each with a label and a value.
func planLines(p *v1.RecoveryPlan) [][2]string {
	out := [][2]string{
		{"Backup", p.Backup + ", completed at " + p.BackupTime.UTC().Format(time.RFC3339)},
		{"Binary log", fmt.Sprintf("%d transactions in %d segments since the backup began", p.Transactions, p.Segments)},
		{"To fetch", p.FetchSize + " from the store"},
		{"To apply", p.ApplySize + " of binary log, in addition to the data of the backup"},
		{"Estimated time", "about " + p.EstimatedDuration},
		{"Last included", transactionText(p.LastTransaction, p.Message, "none after the backup")},
		{"First excluded", transactionText(p.NextTransaction, p.Message, "none: the archived binary log contains no later one")},
	}
	if p.Message != "" {
		out = append(out, [2]string{"Incomplete", p.Message})
	}
	return out
}

// transactionText describes a transaction of a plan. If there is none, it returns missing, or incomplete if t is
// unknown.
func transactionText(t *v1.PlannedTransaction, incomplete, missing string) string {
	const unknown = "unknown"
	switch {
	case t == nil && incomplete != "":
		return unknown
	case t == nil:
		return missing
	case t.CommitTime == "":
		return cmp.Or(t.GTID, unknown)
	}
	return cmp.Or(t.GTID, unknown) + ", committed at " + t.CommitTime
}
