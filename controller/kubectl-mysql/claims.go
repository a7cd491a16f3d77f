package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A plainError is a message for users that includes the next step. Commands do not retry after it.
type plainError string

func (e plainError) Error() string { return printable(string(e)) }

// maxLine is the maximum length of a printed line in bytes.
const maxLine = 8 << 10

// printable removes control sequences, because users can write the status of a claim, and a terminal would interpret
// them.
func printable(text string) string { return v1.PrintableText(text, maxLine) }

func plainf(text string, args ...any) error { return plainError(fmt.Sprintf(text, args...)) }

// explain adds a next step to an error of the API server about claims.
func (s *session) explain(err error, name string) error {
	switch {
	case meta.IsNoMatchError(err):
		return plainf("this cluster has no kind %s: crossplane-mysql is not installed, or its Configuration is not "+
			"Healthy (kubectl get configuration)", s.kind.Kind)
	case kerrors.IsNotFound(err) && name != "":
		return plainf("there is no %s %q in namespace %s: `%s` lists all of them", s.kind.Kind, name, s.namespace,
			s.command("list", "--all-namespaces"))
	}
	return err
}

// find returns an instance. The first instance that is found determines the kind for the whole command.
func (s *session) find(ctx context.Context, name string) (*instance.Composite, error) {
	u, err := s.get(ctx, s.kind, name)
	if instance.IsNotInstalled(err) && !s.instead.Empty() { // Not found, or no such kind.
		if other, oerr := s.get(ctx, s.instead, name); oerr == nil {
			u, err, s.kind = other, nil, s.instead
		}
	}
	if err != nil {
		return nil, s.explain(err, name)
	}
	s.instead = schema.GroupVersionKind{}
	return instance.Decode(u), nil
}

func (s *session) get(ctx context.Context, kind schema.GroupVersionKind, name string) (*unstructured.Unstructured,
	error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(kind)
	return u, s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, u)
}

// list returns the instances of a namespace, or of all namespaces if it is empty. It includes the second kind if
// that kind is installed.
func (s *session) list(ctx context.Context, namespace string) ([]*instance.Composite, error) {
	out, err := s.listKind(ctx, s.kind, namespace)
	if s.instead.Empty() {
		return out, s.explain(err, "")
	}
	others, oerr := s.listKind(ctx, s.instead, namespace)
	switch {
	case meta.IsNoMatchError(oerr):
		return out, s.explain(err, "")
	case meta.IsNoMatchError(err):
		return others, s.explain(oerr, "")
	case err != nil:
		return nil, s.explain(err, "")
	}
	return append(out, others...), s.explain(oerr, "")
}

func (s *session) listKind(ctx context.Context, kind schema.GroupVersionKind, namespace string) ([]*instance.Composite,
	error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := s.kube.List(ctx, l, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	out := make([]*instance.Composite, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, instance.Decode(&l.Items[i]))
	}
	return out, nil
}

// A poll checks whether a wait for an instance is over. It returns a line about the progress, or an error if the
// operation has failed.
type poll func(*instance.Composite) (line string, done bool, err error)

// await reads an instance repeatedly until judge reports that the wait is over. It prints each new line of judge.
func (s *session) await(ctx context.Context, name string, limit time.Duration, judge poll) (*instance.Composite,
	error) {
	return s.awaitOr(ctx, name, limit, judge, "The operation continues: "+s.statusOf(name))
}

// awaitOr is like await. If it stops waiting early, its error ends with the text next.
func (s *session) awaitOr(ctx context.Context, name string, limit time.Duration, judge poll,
	next string) (*instance.Composite, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the timeout of %s expired", limit))
	defer cancel()
	stopped := func(cause error) error {
		return fmt.Errorf("stopped waiting (%w). %s", cause, next)
	}
	last := ""
	var trouble error // The error of the last read, if it failed.
	for {
		c, err := s.find(ctx, name)
		line := ""
		switch {
		case err == nil:
			var done bool
			if line, done, err = judge(c); done || err != nil {
				s.printNews(&last, line)
				return c, err
			}
			trouble = nil
		case ctx.Err() != nil: // The select below returns the cause.
		case errors.As(err, new(plainError)):
			return nil, err
		case !instance.IsPassing(err):
			return nil, stopped(err)
		default:
			line, trouble = "Cannot read the progress: "+err.Error(), err
		}
		s.printNews(&last, line)
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); trouble != nil {
				return nil, stopped(fmt.Errorf("%w, and the state cannot be read: %w", cause, trouble))
			}
			return nil, stopped(context.Cause(ctx))
		case <-time.After(s.pause):
		}
	}
}

// printNews prints a line about the progress if it differs from the last one.
func (s *session) printNews(last *string, line string) {
	if line = printable(strings.TrimSpace(line)); line != "" && line != *last {
		s.sayf("%s", line)
		*last = line
	}
}

// statusOf returns the command that shows the status of a claim. It works in any working directory and kubeconfig
// context.
func (s *session) statusOf(name string) string {
	return s.command("status", name, "--namespace", s.namespace)
}

// command returns a command line of this plugin for the same kind and cluster, to print it for the user.
func (s *session) command(args ...string) string {
	for _, k := range instance.Kinds() {
		if k.Object == s.kind && k.InstanceKind() != v1.KindMySQL {
			args = append(args, "--kind", k.InstanceKind())
		}
	}
	return "kubectl mysql " + strings.Join(append(args, s.flags...), " ")
}
