package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// backupCommand implements `kubectl mysql backup`, which requests a backup of an instance.
type backupCommand struct {
	Name    string        `arg:""          help:"Name of the instance."`
	Method  string        `default:""      enum:",Online,Cold" placeholder:"METHOD"                                                                         help:"Method: Online clones the data while the server runs. Cold stops the server for the copy. The default is spec.backup.schedule.method of the instance, or Online."`
	As      string        `help:"Name of the new Backup. The default is the name of the instance with the date and time." placeholder:"NAME"`
	Wait    bool          `default:"true"  help:"Wait until the backup is verified." negatable:""`
	Timeout time.Duration `default:"1h"    help:"How long to wait. The backup continues after that."`
}

// Help returns additional text for the output of --help.
func (*backupCommand) Help() string {
	return "It creates a Backup in the namespace of the instance: kubectl get backups.crossplane-mysql.io shows all of them."
}

// Run creates a Backup, and waits until it is verified if --wait is set.
func (c *backupCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *backupCommand) run(ctx context.Context, s *session) error {
	claim, err := s.find(ctx, c.Name)
	if err != nil {
		return err
	}
	name := cmp.Or(c.As, defaultBackupName(c.Name, s.now()))
	b, err := newBackup(s, claim, name, v1.BackupMethod(c.Method))
	if err != nil {
		return err
	}
	if err := s.kube.Create(ctx, b); kerrors.IsAlreadyExists(err) {
		return plainf("Backup %q already exists. Choose another name with --as", name)
	} else if err != nil {
		return err
	}
	s.sayf("Created Backup %s/%s of %s %s.", s.namespace, name, claim.GetKind(), c.Name)
	switch {
	case c.Wait:
	case s.json:
		return c.write(s, b)
	default:
		return nil
	}
	w := &awaitedBackup{now: s.now, read: func() (*v1.Backup, error) {
		err := s.kube.Get(ctx, client.ObjectKeyFromObject(b), b)
		return b, err
	}}
	if _, err = s.await(ctx, c.Name, c.Timeout, w.look); err != nil {
		return err
	}
	if s.json {
		return c.write(s, b)
	}
	_, err = fmt.Fprintln(s.out, name)
	return err
}

// write writes the Backup as JSON. It sets the kind, because the response of the API server has none.
func (*backupCommand) write(s *session, b *v1.Backup) error {
	b.SetGroupVersionKind(v1.GroupVersion.WithKind(v1.KindBackup))
	return writeJSON(s.out, b)
}

// defaultBackupName returns a name with the time. It is at most 63 characters long, the limit for the name of a
// Backup.
func defaultBackupName(instance string, now time.Time) string {
	suffix := now.UTC().Format("-20060102-150405")
	return strings.TrimRight(instance[:min(len(instance), 63-len(suffix))], "-.") + suffix
}

// newBackup returns a Backup that requests a backup of an instance.
func newBackup(s *session, claim *instance.Composite, name string, method v1.BackupMethod) (*v1.Backup, error) {
	if claim.GetDeletionTimestamp() != nil {
		return nil, plainf("%s %s is being deleted, and the deletion takes a backup", claim.GetKind(), claim.GetName())
	}
	if claim.Spec.Suspend {
		return nil, plainf("%s is suspended: set spec.suspend to false first", claim.GetName())
	}
	return &v1.Backup{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.KindBackup},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: v1.BackupObjectSpec{Instance: v1.InstanceReference{Kind: instanceKind(s.kind), Name: claim.GetName()},
			Method: method},
	}, nil
}

// instanceKind returns the kind of an instance in the form that Backups use.
func instanceKind(kind schema.GroupVersionKind) string {
	for _, k := range instance.Kinds() {
		if k.Object == kind {
			return k.InstanceKind()
		}
	}
	return kind.Kind
}

// soonBegins is the time within which a running controller starts a backup if nothing prevents it.
const soonBegins = 2 * time.Minute

// An awaitedBackup reads the progress of a Backup that this command has created.
type awaitedBackup struct {
	// read reads the Backup from the API server.
	read func() (*v1.Backup, error)
	now  func() time.Time
	// idleSince is the time since which nothing prevents the backup, although it has not started.
	idleSince time.Time
}

// look returns a line about the progress of the backup, and whether the command stops waiting for it.
func (w *awaitedBackup) look(c *instance.Composite) (line string, done bool, err error) {
	b, err := w.read()
	switch {
	case kerrors.IsNotFound(err):
		return "", true, plainf("the Backup was deleted")
	case err != nil:
		return "", false, err
	}
	complete := cmp.Or(meta.FindStatusCondition(b.Status.Conditions, v1.ConditionComplete), &metav1.Condition{})
	switch complete.Reason {
	case v1.ReasonBackupVerified:
		return complete.Reason, true, nil
	case v1.ReasonBackupFailed:
		return "", true, plainf("the backup has failed: %s", b.Status.Message)
	case v1.ReasonBackupInProgress:
		return b.Status.Message, false, nil
	}
	if c.GetDeletionTimestamp() != nil {
		return "", true, plainf("the instance is being deleted, and the deletion takes a backup of its own")
	}
	return waitsToBegin(c), false, w.checkBegins(c)
}

// checkBegins returns an error if the backup has not started for soonBegins although nothing prevents it.
func (w *awaitedBackup) checkBegins(c *instance.Composite) error {
	switch {
	case !isIdle(c):
		w.idleSince = time.Time{}
	case w.idleSince.IsZero():
		w.idleSince = w.now()
	case w.now().Sub(w.idleSince) > soonBegins:
		return plainf("the server accepts clients, but the backup has not started for %s. Check that the "+
			"controller is running", soonBegins)
	}
	return nil
}

// isIdle reports whether a backup could start, but has not started, and no condition says why.
func isIdle(c *instance.Composite) bool {
	return c.Status.BackupUnderWay() == nil && meta.IsStatusConditionTrue(c.Conditions, v1.ConditionServing) &&
		len(obstacles(c)) == 0
}

// obstacles returns the reasons that prevent a backup. An overdue scheduled backup does not prevent one.
func obstacles(c *instance.Composite) []Reason {
	return slices.DeleteFunc(reasons(c.Conditions), func(r Reason) bool { return r.Condition == v1.ConditionLastBackupSucceeded })
}

// waitsToBegin returns the message for a backup that has not started. It contains everything that prevents the start.
func waitsToBegin(c *instance.Composite) string {
	text := "Waiting for the backup to start"
	if u := c.Status.BackupUnderWay(); u != nil {
		text += ", after " + c.Status.WhatIsTaken(u)
	}
	return withReasons(text, obstacles(c))
}
