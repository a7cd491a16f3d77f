package main

import (
	"bufio"
	"cmp"
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

// restoreCommand implements `kubectl mysql restore`, which creates an instance from a backup of another one.
type restoreCommand struct {
	From      string        `help:"Name of the instance whose backup is restored. The instance can be deleted."                                                   placeholder:"NAME" required:""`
	To        string        `help:"Name of the new instance. It must not exist yet."                                                             placeholder:"NAME" required:""`
	Backup    string        `help:"Name of the backup, as 'kubectl get backups.crossplane-mysql.io' shows it. The default is the last verified backup." placeholder:"NAME" xor:"source"`
	At        string        `help:"Time or GTID to recover the new instance to, such as 2026-11-22T18:00:00.25Z. With before: and a GTID, that transaction is left out. Latest is the last archived transaction. Requires the archived binary log of the other instance. The default is the data of its last verified backup." placeholder:"TIME" xor:"source"`
	InsteadOf string        `help:"Last backup of a previous instance with the new name. It confirms that another backup is restored instead. Required if that instance had the same restore source." placeholder:"NAME"`
	Filename  string        `help:"Manifest of the new instance, or - for standard input. The default is the spec of the other instance. Required if that instance is deleted."              placeholder:"FILE"              short:"f" type:"existingfile"`
	DryRun    bool          `help:"Print the manifest of the new instance, and create nothing. With --at, print the plan of the recovery instead. For the plan, a suspended instance without a volume exists for some seconds."`
	Wait      bool          `default:"true"                                                                                                                 help:"Wait until the server of the new instance accepts clients." negatable:""`
	Timeout   time.Duration `default:"1h"                                                                                                                   help:"How long to wait. The restore continues after that."`

	// record is the name of the BackupRecord that belongs to the Backup in --backup, or "" if it is unknown. The
	// status of the new claim will contain this name.
	record string
}

// Help returns additional text for the output of --help.
func (*restoreCommand) Help() string {
	return "The new claim has the spec and the password of the other claim, which is not changed. To restore a " +
		"claim under its own name, apply it again: that restores its newest backup."
}

// Run creates the new claim, and waits for it if requested.
func (c *restoreCommand) Run(ctx context.Context, root *cli) error {
	s, err := root.open()
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
	if c.DryRun && c.At != "" {
		return c.plan(ctx, s, claim)
	}
	if c.DryRun {
		return s.print(claim)
	}
	err = s.kube.Create(ctx, claim, client.FieldValidation(metav1.FieldValidationStrict))
	switch {
	case kerrors.IsAlreadyExists(err):
		return plainf("%s %q already exists, but a restore creates a new claim: choose another name with --to",
			s.kind.Kind, c.To)
	case err != nil:
		return s.explain(err, "")
	}
	if b := (&v1.Backup{}); c.Backup != "" &&
		s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: c.Backup}, b) == nil {
		c.record = b.Status.Record
	}
	s.sayf("Created %s %s/%s.", s.kind.Kind, s.namespace, c.To)
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

// claim returns the claim to create, with the restore source.
func (c *restoreCommand) claim(ctx context.Context, s *session) (*unstructured.Unstructured, error) {
	if c.From == c.To {
		return nil, plainf("--from and --to are both %s: to restore the newest backup of that claim, apply the "+
			"claim again", c.To)
	}
	source, err := c.model(ctx, s)
	if err != nil {
		return nil, err
	}
	return c.restored(source, s.namespace), nil
}

// model returns the claim whose spec the new claim gets: the source claim, or the claim in the file if one is given.
func (c *restoreCommand) model(ctx context.Context, s *session) (*unstructured.Unstructured, error) {
	if c.Filename == "" {
		found, err := s.find(ctx, c.From)
		if err != nil {
			return nil, fmt.Errorf("cannot read the spec of %s, pass the new claim's manifest with --filename: %w", c.From, err)
		}
		return found.Unstructured, nil
	}
	source, err := c.read(s.kind)
	if err != nil {
		return nil, err
	}
	if in := source.GetNamespace(); in != "" && in != s.namespace {
		return nil, plainf("the claim in %s is in namespace %s, and a claim is only restored from backups of its "+
			"own namespace: use --namespace %s, or remove the namespace from the manifest", c.Filename, in, in)
	}
	return source, nil
}

// read reads the claim from a file: the only one, or the one with the given name. Other objects in the file are
// ignored.
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
		source := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(raw, &source.Object)
		}
		switch {
		case err != nil:
			return nil, plainf("%s is not the manifest of a claim: %v", c.Filename, err)
		case source.GroupVersionKind() == kind:
			claims = append(claims, source)
		case len(source.Object) > 0:
			others = fmt.Sprintf(", but a %s", source.GroupVersionKind())
		}
	}
	if len(claims) > 1 {
		claims = slices.DeleteFunc(claims, func(source *unstructured.Unstructured) bool { return source.GetName() != c.From })
		if len(claims) != 1 {
			return nil, plainf("%s contains more than one %s, and %d of them have the name %s: pass a file with only one",
				c.Filename,
				kind.Kind, len(claims), c.From)
		}
	}
	if len(claims) == 0 {
		return nil, plainf("%s contains no %s%s", c.Filename, kind, others)
	}
	return claims[0], nil
}

// whatCrossplaneWrites are the fields in the spec of a claim that Crossplane writes.
var whatCrossplaneWrites = []string{"resourceRef", "compositionRevisionRef", "compositeDeletePolicy"} //nolint:gochecknoglobals // A constant list.

// restored returns a new claim with the spec of the source claim. The new claim restores the requested backup of the
// source, or the newest one if no backup is requested.
func (c *restoreCommand) restored(source *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{}}
	out.SetGroupVersionKind(source.GroupVersionKind())
	out.SetNamespace(namespace)
	out.SetName(c.To)
	// The error is ignored, because the API server refuses a claim with an invalid spec. The returned map is a deep
	// copy.
	spec, _, _ := unstructured.NestedMap(source.Object, "spec")
	if spec == nil {
		spec = map[string]any{}
	}
	for _, field := range whatCrossplaneWrites {
		delete(spec, field)
	}
	if own, ok := spec["crossplane"].(map[string]any); ok { // These are fields of the API without claims.
		delete(own, "resourceRefs")
		delete(own, "compositionRevisionRef")
	}
	if c.Filename == "" {
		delete(spec, "suspend") // The other claim may be suspended while users examine the new one.
		keepImage(spec, source)
	} else {
		out.SetLabels(notOfPrograms(source.GetLabels()))
		out.SetAnnotations(notOfPrograms(source.GetAnnotations()))
	}
	if ref, ok := spec["writeConnectionSecretToRef"].(map[string]any); ok {
		ref["name"] = c.To + "-published" // Two claims cannot write to one Secret.
	}
	restore := map[string]any{"from": c.From}
	if c.At != "" {
		restore["at"] = c.At
	}
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

// keepImage sets the image of the source instance, because the current default may belong to a different release
// series.
func keepImage(spec map[string]any, source *unstructured.Unstructured) {
	if spec["image"] != nil {
		return
	}
	for _, path := range [][]string{{"status", v1.StatusInternal, "servedImage"}, {"status", "image"}} {
		if image, _, _ := unstructured.NestedString(source.Object, path...); image != "" {
			spec["image"] = image
			return
		}
	}
}

// notOfPrograms removes the labels or annotations of kubectl and of this product, which are valid for one claim only.
func notOfPrograms(values map[string]string) map[string]string {
	maps.DeleteFunc(values, func(key, _ string) bool {
		return strings.HasPrefix(key, "kubectl.kubernetes.io/") || strings.HasPrefix(key, v1.Group+"/")
	})
	if len(values) == 0 {
		return nil
	}
	return values
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

// look is a poll that waits until the server of the restored instance accepts clients.
func (c *restoreCommand) look(made *instance.Composite) (line string, done bool, err error) {
	if made.GetDeletionTimestamp() != nil {
		return "", true, plainf("the new claim is being deleted")
	}
	if status := made.Status.Restore; status != nil && !c.asks(made, status.Backup) {
		return "", true, plainf("it is restored from %s, the newest backup of a previous claim %s. That claim was "+
			"restored from the same backup, and a name can be restored from the same backup only once. Choose "+
			"another name with --to. Or delete this claim, and pass its newest backup with --instead-of",
			status.Backup, c.To)
	}
	for _, condition := range made.Conditions {
		switch {
		case condition.Status != metav1.ConditionFalse:
		case condition.Type == v1.ConditionAccepted, condition.Reason == v1.ReasonRestoreFailed:
			return "", true, plainf("the restore is not possible: %s", strings.TrimSpace(condition.Message))
		case condition.Type == v1.ConditionServing && condition.Reason == v1.ReasonSuspended:
			return "", true, plainf("the server is stopped, because the manifest suspends it: %s",
				strings.TrimSpace(condition.Message))
		}
	}
	return waitsFor(made), meta.IsStatusConditionTrue(made.Conditions, ready), nil
}

// waitsFor returns the message of the claim, or else Crossplane's conditions.
func waitsFor(made *instance.Composite) string {
	if made.Status.Message != "" {
		return made.Status.Message
	}
	return withReasons("Waiting for Crossplane", reasons(made.Conditions))
}

// asks reports whether the new claim restores the requested backup. If no backup is requested, it must not be one of
// the new claim's own backups. A user without access to BackupRecords cannot see to which instance a backup belongs.
func (c *restoreCommand) asks(made *instance.Composite, backup string) bool {
	if c.Backup != "" {
		return backup == cmp.Or(c.record, c.Backup)
	}
	return !slices.ContainsFunc(made.Status.ListedBackups(), func(own v1.ListedBackup) bool {
		return cmp.Or(own.Record, own.Name) == backup
	})
}
