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
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// A plainError says what is wrong, and what to do; another try would not help.
type plainError string

func (e plainError) Error() string { return printable(string(e)) }

// maxLine in bytes of what is printed for people.
const maxLine = 8 << 10

// printable text of a claim: whoever may write its status has written it, and a terminal obeys none of it.
func printable(text string) string { return v1.PrintableText(text, maxLine) }

func plainf(text string, args ...any) error { return plainError(fmt.Sprintf(text, args...)) }

// explain an error of the API server about claims.
func (s *session) explain(err error, name string) error {
	switch {
	case meta.IsNoMatchError(err):
		return plainf("this cluster has no kind %s: crossplane-mysql is not installed, or its Configuration is not Healthy (kubectl get configuration)", s.kind.Kind)
	case kerrors.IsNotFound(err) && name != "":
		return plainf("there is no %s %q in namespace %s: `%s` has all of them", s.kind.Kind, name, s.namespace, s.command("list", "--all-namespaces"))
	}
	return err
}

// find a claim.
func (s *session) find(ctx context.Context, name string) (*instance.Composite, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(s.kind)
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, u); err != nil {
		return nil, s.explain(err, name)
	}
	return instance.Decode(u), nil
}

// list the claims of a namespace, or of all where that is empty.
func (s *session) list(ctx context.Context, namespace string) ([]*instance.Composite, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(s.kind.GroupVersion().WithKind(s.kind.Kind + "List"))
	if err := s.kube.List(ctx, l, client.InNamespace(namespace)); err != nil {
		return nil, s.explain(err, "")
	}
	out := make([]*instance.Composite, 0, len(l.Items))
	for i := range l.Items {
		out = append(out, instance.Decode(&l.Items[i]))
	}
	return out, nil
}

// A look at a claim that one waits for: what to say of it, whether that is the end, and an error where it is a bad one.
type look func(*instance.Composite) (line string, done bool, err error)

// await the end of something, and say how far it is whenever that has changed.
func (s *session) await(ctx context.Context, name string, limit time.Duration, judge look) (*instance.Composite, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it takes longer than %s", limit))
	defer cancel()
	stopped := func(why error) error {
		return fmt.Errorf("stopped waiting (%w); it goes on: %s", why, s.statusOf(name))
	}
	last := ""
	var trouble error // That there is with looking.
	for {
		c, err := s.find(ctx, name)
		line := ""
		switch {
		case err == nil:
			var done bool
			if line, done, err = judge(c); done || err != nil {
				s.sayNews(&last, line)
				return c, err
			}
			trouble = nil
		case ctx.Err() != nil: // It is why.
		case errors.As(err, new(plainError)):
			return nil, err
		case !instance.IsPassing(err):
			return nil, stopped(err)
		default:
			line, trouble = "Cannot see how far it is: "+err.Error(), err
		}
		s.sayNews(&last, line)
		select {
		case <-ctx.Done():
			if why := context.Cause(ctx); trouble != nil {
				return nil, stopped(fmt.Errorf("%w, and there is no way to see it: %w", why, trouble))
			}
			return nil, stopped(context.Cause(ctx))
		case <-time.After(s.pause):
		}
	}
}

// sayNews is a line that is not the last one.
func (s *session) sayNews(last *string, line string) {
	if line = printable(strings.TrimSpace(line)); line != "" && line != *last {
		s.sayf("%s", line)
		*last = line
	}
}

// statusOf a claim is the command that shows it, from wherever it is typed.
func (s *session) statusOf(name string) string {
	return s.command("status", name, "--namespace", s.namespace)
}

// command of the plugin about the same kind, in the same cluster.
func (s *session) command(args ...string) string {
	if s.kind.Kind != v1.KindMySQL {
		args = append(args, "--kind", s.kind.Kind)
	}
	return "kubectl mysql " + strings.Join(append(args, s.where...), " ")
}
