package instance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// readRequested returns the oldest Backup object that requests a backup of an existing instance. It first checks the
// cache, so that instances without such an object cost no API call. It then reads the object again from the API
// server, because the backup may have been completed in the meantime.
func (g *Gatherer) readRequested(ctx context.Context, s *Subject) (Request, error) {
	if s.XR == nil || s.IsDeleting() || !s.XR.Status.Started || s.XR.Status.RequestedBackup.IsUnderWay() {
		return Request{}, nil
	}
	found, err := BackupsOf(ctx, g.cache(), s.Instance.Namespace, s.Instance.Kind, s.Instance.Name)
	if err != nil {
		return Request{}, err
	}
	b := oldestOpen(found, s.XR.Status.RequestedBackup)
	if b == nil {
		return Request{}, nil
	}
	now, err := getObject(ctx, g.Reader, &v1.Backup{}, b.Namespace, b.Name)
	if err != nil || now == nil || now.UID != b.UID || !isOpen(now) {
		return Request{}, err
	}
	method := cmp.Or(now.Spec.Method, s.XR.Spec.Backup.ScheduledMethod(), v1.MethodOnline)
	return Request{Name: now.Name, UID: now.UID, Method: method}, nil
}

func (g *Gatherer) cache() client.Reader {
	if g.Cache != nil {
		return g.Cache
	}
	return g.Reader
}

// BackupsOf returns the Backup objects of an instance in its namespace. It returns none if the kind is not installed.
func BackupsOf(ctx context.Context, r client.Reader, namespace, kind, name string) ([]v1.Backup, error) {
	l := &v1.BackupList{}
	if err := r.List(ctx, l, client.InNamespace(namespace)); err != nil {
		if IsNotInstalled(err) || kerrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("cannot list the Backups of namespace %s: %w", namespace, err)
	}
	return slices.DeleteFunc(l.Items, func(b v1.Backup) bool {
		return b.KindOfInstance() != kind || b.Spec.Instance.Name != name
	}), nil
}

// isOpen reports whether a Backup object requests a backup that has not been taken yet.
func isOpen(b *v1.Backup) bool { return b.DeletionTimestamp == nil && !b.IsAnswered() }

// oldestOpen returns the oldest Backup object without a result, or nil. It returns nil until the result of the last
// backup is written, because that backup would otherwise be taken again.
func oldestOpen(all []v1.Backup, last *v1.LastBackupStatus) *v1.Backup {
	var out *v1.Backup
	for i := range all {
		b := &all[i]
		if !isOpen(b) {
			continue
		}
		if last != nil && last.UID == b.UID && last.Request == b.Name {
			return nil
		}
		if out == nil || isOlder(b, out) {
			out = b
		}
	}
	return out
}

func isOlder(a, b *v1.Backup) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return strings.Compare(a.Name, b.Name) < 0
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
