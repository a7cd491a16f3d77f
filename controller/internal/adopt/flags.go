package adopt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// Flags are the flags of `kubectl mysql adopt`.
type Flags struct {
	Volume string   `help:"PersistentVolumeClaim of the backups, in the namespace of the instance: backup-NAME-pvc, or backup-NAME.mysql-pvc without a claim." placeholder:"PVC" required:"" xor:"place"`
	Store  string   `help:"BackupStore of the backups, instead of a volume." placeholder:"NAME" required:"" xor:"place"`
	Map    []string `help:"With --store: import the backups of namespace OLD into namespace NEW. If NEW is omitted, it is the same as OLD. If unset, all backups in the store are listed, and none is imported." placeholder:"OLD=NEW"`
	Name   string   `help:"With --volume: name of the instance, if the name of the PersistentVolumeClaim does not contain it." placeholder:"NAME"`
	DryRun bool     `help:"List the backups, and write nothing."`

	SystemNamespace string `default:"crossplane-mysql-system" help:"Namespace of the controller. The image of the Job is read from the Deployment there."`
	Image           string `help:"Image of the Job that reads the volume. The default is the controller's image." placeholder:"IMAGE"`
}

// Help returns the text that is printed after the flags.
func (*Flags) Help() string {
	return "It imports backups whose BackupRecords are lost, together with the labels and the catalog of their " +
		"volume. This happens if etcd was restored from an earlier state, or if the volume comes from another cluster. " +
		"It also imports the backups that another cluster has left in a store. On a volume, a Job reads each archive " +
		"completely, and changes nothing on the volume. It refuses archives that are damaged, that belong to another " +
		"instance, or that are not in the place where the controller stores archives. For the others, the labels and the " +
		"catalog of the volume are written, and the controller creates their BackupRecords. A claim that waits for these " +
		"backups then continues. In a store, the controller reads the catalog and trusts the entries that are signed " +
		"with its key. These backups are assigned to the namespaces that --map specifies."
}

// Check returns an error if flags contradict each other. The namespace is empty if it is not set.
func (f *Flags) Check(namespace string) error {
	switch {
	case f.Store != "" && namespace != "":
		return errors.New(
			"--namespace is only for --volume. With --store, use --map to specify the namespaces whose backups are adopted")
	case f.Store != "" && f.Name != "":
		return errors.New("--name is only for --volume. With --store, all backups of a namespace are adopted")
	case f.Store == "" && len(f.Map) > 0:
		return errors.New("--map is only for --store. The backups on a volume belong to the claim's namespace, which " +
			"--namespace specifies")
	}
	return nil
}

// Adopt imports the backups on the volume or in the store that the flags name. For a volume, kind and namespace are
// the kind and namespace of the claim that was backed up.
func (f *Flags) Adopt(ctx context.Context, cfg *rest.Config, kube client.Client, kind, namespace string) error {
	if f.Store != "" {
		named, err := namedNamespaces(f.Map)
		if err != nil {
			return fmt.Errorf("--map %w", err)
		}
		a := StoreAdoption{Kube: kube, Store: f.Store, Namespaces: named, DryRun: f.DryRun, Output: os.Stdout,
			Progress: os.Stderr}
		return a.Run(ctx)
	}
	instance, err := instanceOn(f.Volume, v1.Instance{Kind: kind, Namespace: namespace, Name: f.Name})
	if err != nil {
		return err
	}
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	controller, err := findController(ctx, kube, f.SystemNamespace)
	if err != nil && f.Image == "" {
		return err
	}
	f.Image = cmp.Or(f.Image, controller.Image)
	resources, err := jobResources(controller)
	if err != nil {
		return err
	}
	a := &Adoption{
		Kube: kube, Of: instance, AgentImage: f.Image, Resources: resources, DryRun: f.DryRun, Output: os.Stdout,
		Progress: os.Stderr,
		Log: func(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
			return set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).Stream(ctx)
		},
	}
	findings, err := a.Run(ctx)
	if err != nil {
		return err
	}
	return refusals(findings)
}

// refusals returns an error if a backup was refused, so that scripts can detect it. Without that backup, a new claim
// would restore an older backup or start empty.
func refusals(findings []Finding) error {
	n := 0
	for i := range findings {
		if findings[i].Verdict == Refused {
			n++
		}
	}
	return refusedError(n)
}

func refusedError(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d backups were refused", n)
}

// instanceOn returns the instance whose backups are on a backup PVC. The user can name the instance. Otherwise the
// name is part of the PVC's name, unless that name was shortened.
func instanceOn(pvc string, instance v1.Instance) (v1.Instance, error) {
	if instance.Name != "" {
		if instance.BackupPVCName() != pvc {
			return instance, fmt.Errorf("the backups of %s %s are on PersistentVolumeClaim %s and not on %s", instance.Kind,
				instance.Name, instance.BackupPVCName(), pvc)
		}
		return instance, nil
	}
	const mark = "\x00"
	around := v1.Instance{Kind: instance.Kind, Name: mark}.BackupPVCName()
	before, after, _ := strings.Cut(around, mark)
	name, ok := strings.CutPrefix(pvc, before)
	if ok {
		instance.Name, ok = strings.CutSuffix(name, after)
	}
	if !ok || instance.Name == "" || instance.BackupPVCName() != pvc {
		return instance, fmt.Errorf("the name %s does not contain the name of a claim: specify the claim with --name, "+
			"and set --kind if it is not a MySQL", pvc)
	}
	return instance, nil
}

// namedNamespaces maps the names of the original namespaces to the target namespaces. Each pair is OLD=NEW, or OLD if
// the name stays the same.
func namedNamespaces(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range pairs {
		from, target, mapped := strings.Cut(pair, "=")
		if !mapped {
			target = from
		}
		for _, name := range []string{from, target} {
			if reason := validation.IsDNS1123Label(name); len(reason) > 0 {
				return nil, fmt.Errorf("%s: %q is not a valid namespace: %s", pair, name, reason[0])
			}
		}
		if other, twice := out[from]; twice && other != target {
			return nil, fmt.Errorf("%s: the backups of namespace %s are already mapped to %s", pair, from, other)
		}
		out[from] = target
	}
	return out, nil
}

// findController returns the container of the controller's Deployment, whose image and flags the import Job uses.
func findController(ctx context.Context, kube client.Client, namespace string) (corev1.Container, error) {
	d := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "crossplane-mysql"}, d); err != nil {
		return corev1.Container{}, fmt.Errorf("cannot find the controller's image, set it with --image: %w", err)
	}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return corev1.Container{}, errors.New("the controller's Deployment has no container: set the image with " +
			"--image")
	}
	return d.Spec.Template.Spec.Containers[0], nil
}

// jobResources returns the resources that the controller uses for its Jobs. They come from the flag --job-resources
// or the environment variable JOB_RESOURCES, or are nil if neither is set. The Job of the import uses the same
// resources, because a quota may refuse others.
func jobResources(controller corev1.Container) (*corev1.ResourceRequirements, error) {
	text := ""
	for _, e := range controller.Env {
		if e.Name == "JOB_RESOURCES" {
			text = e.Value
		}
	}
	for _, arg := range controller.Args {
		if value, found := strings.CutPrefix(arg, "--job-resources="); found {
			text = value
		}
	}
	return instance.ReadJobResources(text)
}
