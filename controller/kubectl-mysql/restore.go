package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// restoreCommand is `kubectl mysql restore`.
type restoreCommand struct {
	From      string        `help:"Name of the claim whose backup is restored. It may be there, or gone."                                                   required:""`
	To        string        `help:"Name of the claim that is made. There is none of that name."                                                             required:""`
	Backup    string        `help:"Name of the backup, as 'kubectl mysql status' of the first claim or 'kubectl get msb' has it; the newest that is proven where it is not said." placeholder:"NAME"`
	InsteadOf string        `help:"Newest backup of an earlier claim of the new name, which is left aside: needed where that began with the same choice." placeholder:"NAME"`
	Filename  string        `help:"Manifest of the claim that is made, in the place of what the other one asks for. Needed where that is gone."              placeholder:"FILE"              short:"f" type:"existingfile"`
	DryRun    bool          `help:"Print the claim, and make nothing."`
	Wait      bool          `default:"true"                                                                                                                 help:"Wait until its server takes clients." negatable:""`
	Timeout   time.Duration `default:"1h"                                                                                                                   help:"How long to wait; the restore goes on."`
}

// Help that follows the flags.
func (*restoreCommand) Help() string {
	return "The new claim asks for what the other one does, with the same password. Nothing of the other one is changed. To bring a claim back under its own name, apply it again: that restores its newest backup."
}

// Run it.
func (c *restoreCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
	if err != nil {
		return err
	}
	return c.run(ctx, s)
}

func (c *restoreCommand) run(ctx context.Context, s *session) error {
	claim, err := c.claim(ctx, s)
	if err != nil {
		return err
	}
	if c.DryRun {
		return s.print(claim)
	}
	err = s.kube.Create(ctx, claim, client.FieldValidation(metav1.FieldValidationStrict))
	switch {
	case kerrors.IsAlreadyExists(err):
		return plainf("there is a %s %q: a restore makes a new claim, give another name with --to", s.kind.Kind, c.To)
	case err != nil:
		return s.explain(err, "")
	}
	s.sayf("Made %s %s/%s.", s.kind.Kind, s.namespace, c.To)
	if !c.Wait && !s.json {
		return nil
	}
	made := instance.Decode(claim)
	if c.Wait {
		if made, err = s.await(ctx, c.To, c.Timeout, c.look); err != nil {
			return err
		}
	}
	return s.show(summarize(made))
}

// claim that is to be made.
func (c *restoreCommand) claim(ctx context.Context, s *session) (*unstructured.Unstructured, error) {
	if c.From == c.To {
		return nil, plainf("--from and --to are both %s: apply that claim again, and its newest backup is restored", c.To)
	}
	of, err := c.model(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.restored(of, s.namespace), nil
}

// model of the new claim: a file, or the other claim.
func (c *restoreCommand) model(ctx context.Context, s *session) (*unstructured.Unstructured, error) {
	if c.Filename == "" {
		found, err := s.find(ctx, c.From)
		if err != nil {
			return nil, fmt.Errorf("cannot see what %s asks for: give the new claim's manifest with --filename: %w", c.From, err)
		}
		return found.Unstructured, nil
	}
	of, err := c.read(s.kind)
	if err != nil {
		return nil, err
	}
	if in := of.GetNamespace(); in != "" && in != s.namespace {
		return nil, plainf("%s has a claim of namespace %s, and a claim is restored from the backups of its own: say --namespace %s, or take the namespace out of the manifest", c.Filename, in, in)
	}
	return of, nil
}

// read the claim of a file: the only one, or the one of the name. What else is in it is not made.
func (c *restoreCommand) read(kind schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	open := func() (io.ReadCloser, error) { return os.Open(c.Filename) }
	if c.Filename == "-" {
		open = func() (io.ReadCloser, error) { return io.NopCloser(os.Stdin), nil }
	}
	from, err := open()
	if err != nil {
		return nil, err
	}
	defer from.Close() //nolint:errcheck // It is read only.
	var claims []*unstructured.Unstructured
	others := ""
	for documents := kyaml.NewYAMLReader(bufio.NewReader(from)); ; {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		of := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(raw, &of.Object)
		}
		switch {
		case err != nil:
			return nil, plainf("%s is no manifest of a claim: %v", c.Filename, err)
		case of.GroupVersionKind() == kind:
			claims = append(claims, of)
		case len(of.Object) > 0:
			others = fmt.Sprintf(", but a %s", of.GroupVersionKind())
		}
	}
	if len(claims) > 1 {
		claims = slices.DeleteFunc(claims, func(of *unstructured.Unstructured) bool { return of.GetName() != c.From })
		if len(claims) != 1 {
			return nil, plainf("%s has more than one %s, and %d of them are called %s: give a file with one", c.Filename, kind.Kind, len(claims), c.From)
		}
	}
	if len(claims) == 0 {
		return nil, plainf("%s has no %s%s", c.Filename, kind, others)
	}
	return claims[0], nil
}

// whatCrossplaneWrites into the spec of a claim.
var whatCrossplaneWrites = []string{"resourceRef", "compositionRevisionRef", "compositeDeletePolicy"} //nolint:gochecknoglobals // A constant list.

// restored is a claim that asks for the same as another one, and begins with a backup of that: the newest where none is named.
func (c *restoreCommand) restored(of *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(of.GroupVersionKind())
	out.SetNamespace(namespace)
	out.SetName(c.To)
	spec, _, _ := unstructured.NestedMap(of.Object, "spec") // A deep copy; a spec that is none is refused by the API server.
	if spec == nil {
		spec = map[string]any{}
	}
	for _, field := range whatCrossplaneWrites {
		delete(spec, field)
	}
	if c.Filename == "" {
		delete(spec, "suspended") // The other one may be off so that this one can be looked at beside it.
		keepImage(spec, of)
	} else {
		out.SetLabels(notOfPrograms(of.GetLabels()))
		out.SetAnnotations(notOfPrograms(of.GetAnnotations()))
	}
	if ref, ok := spec["writeConnectionSecretToRef"].(map[string]any); ok {
		ref["name"] = c.To + "-published" // Two claims cannot write to one Secret.
	}
	if b, ok := spec["backup"].(map[string]any); ok {
		delete(b, "request") // It is not asked for a second time.
	}
	restore := map[string]any{"from": c.From}
	if c.Backup != "" {
		restore = map[string]any{"backup": c.Backup}
	}
	if c.InsteadOf != "" {
		restore["insteadOf"] = c.InsteadOf
	}
	spec["restore"] = restore
	out.Object["spec"] = spec
	return out
}

// keepImage that an instance got when it was made: today's default may be of another series.
func keepImage(spec map[string]any, of *unstructured.Unstructured) {
	if spec["image"] != nil {
		return
	}
	for _, field := range []string{"servedImage", "image"} {
		if image, _, _ := unstructured.NestedString(of.Object, "status", field); image != "" {
			spec["image"] = image
			return
		}
	}
}

// notOfPrograms are labels or annotations that people write: what kubectl and this product note of one claim is not true of another.
func notOfPrograms(of map[string]string) map[string]string {
	maps.DeleteFunc(of, func(key, _ string) bool {
		return strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, v1.Group+"/")
	})
	if len(of) == 0 {
		return nil
	}
	return of
}

func (s *session) print(claim *unstructured.Unstructured) error {
	if s.json {
		return writeJSON(s.out, claim.Object)
	}
	raw, err := yaml.Marshal(claim.Object)
	if err != nil {
		return err
	}
	_, err = s.out.Write(raw)
	return err
}

// look at a claim that was made for it.
func (c *restoreCommand) look(made *instance.Composite) (line string, done bool, err error) {
	if made.GetDeletionTimestamp() != nil {
		return "", true, plainf("somebody deletes the new claim")
	}
	if of := made.Status.Restore; of != nil && !c.asks(made, of.Backup) {
		return "", true, plainf("it starts from %s, the newest backup of an earlier %s, which began with the same choice: that counts once. Give another name with --to; or delete this one, and name the newest backup that is then there with --instead-of",
			of.Backup, c.To)
	}
	for _, is := range made.Conditions {
		switch {
		case is.Status != metav1.ConditionFalse:
		case is.Type == v1.ConditionAccepted, is.Reason == v1.ReasonRestoreFailed:
			return "", true, plainf("it cannot be done: %s", strings.TrimSpace(is.Message))
		case is.Type == v1.ConditionServing && is.Reason == v1.ReasonSuspended:
			return "", true, plainf("it is as the manifest wants it: %s", strings.TrimSpace(is.Message))
		}
	}
	return waitsFor(made), meta.IsStatusConditionTrue(made.Conditions, ready), nil
}

// waitsFor is what a claim says, or Crossplane while nobody else has looked at it.
func waitsFor(made *instance.Composite) string {
	if made.Status.Message != "" {
		return made.Status.Message
	}
	return withReasons("Waiting for Crossplane", reasons(made.Conditions))
}

// asks is true of the backup that was chosen. Whose that of another claim is, only who may see its record knows; the claim lists its own.
func (c *restoreCommand) asks(made *instance.Composite, backup string) bool {
	if c.Backup != "" {
		return backup == c.Backup
	}
	return !slices.ContainsFunc(made.Status.Backups, func(own v1.ListedBackup) bool { return own.Name == backup })
}
