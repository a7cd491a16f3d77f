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

// Flags are what a person says, to the controller's program or to kubectl's plugin.
type Flags struct {
	Volume string   `help:"PersistentVolumeClaim of the backups, backup-NAME-pvc, in the claim's namespace." placeholder:"PVC" required:"" xor:"place"`
	Store  string   `help:"BackupStore of the backups." placeholder:"NAME" required:"" xor:"place"`
	Map    []string `help:"With --store: each namespace that gets backups, as OLD=NEW, or OLD where it is called the same; without one all backups there are listed." placeholder:"OLD=NEW"`
	Name   string   `help:"With --volume: name of the claim, where that of the PersistentVolumeClaim does not say it." placeholder:"NAME"`
	DryRun bool     `help:"Look, and write nothing."`

	SystemNamespace string `default:"crossplane-mysql-system" help:"The controller's own namespace, where its Deployment says which image it is."`
	Image           string `help:"Image of the Job that reads the volume; the controller's where it is not said." placeholder:"IMAGE"`
}

// Help that follows the flags.
func (*Flags) Help() string {
	return "For backups whose records are lost, with the notes and labels of their volume: after a restored etcd, or where the volume was brought from elsewhere; and for those in a store that another cluster has left. " +
		"On a volume a Job reads each archive as a whole. What is another instance's, damaged, or not where the controller puts a backup is refused, and nothing on the volume is changed. " +
		"For the others the volume gets its labels and notes, and the controller makes their records. A claim of that name that was held goes on then. " +
		"In a store the controller reads the notes, and believes those that have the seal of its key. They become backups of the namespaces that are named."
}

// Check that nothing is said which is not meant, beside a namespace; empty where none is said.
func (f *Flags) Check(namespace string) error {
	switch {
	case f.Store != "" && namespace != "":
		return errors.New("--namespace is that of a volume's claim: with --store, --map names the namespaces that get backups")
	case f.Store != "" && f.Name != "":
		return errors.New("--name is that of a volume's claim: with --store all of a namespace is adopted")
	case f.Store == "" && len(f.Map) > 0:
		return errors.New("--map is for backups in a store: those on a volume are of the claim's namespace, which --namespace says")
	}
	return nil
}

// Adopt what there is in a cluster. Kind and namespace are the claim's, and count for a volume.
func (f *Flags) Adopt(ctx context.Context, cfg *rest.Config, kube client.Client, kind, namespace string) error {
	if f.Store != "" {
		named, err := namedNamespaces(f.Map)
		if err != nil {
			return fmt.Errorf("--map %w", err)
		}
		a := StoreAdoption{Kube: kube, Store: f.Store, Namespaces: named, DryRun: f.DryRun, Output: os.Stdout, Progress: os.Stderr}
		return a.Run(ctx)
	}
	of, err := instanceOn(f.Volume, v1.Instance{Kind: kind, Namespace: namespace, Name: f.Name})
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
		Kube: kube, Of: of, AgentImage: f.Image, Resources: resources, DryRun: f.DryRun, Output: os.Stdout, Progress: os.Stderr,
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

// refusals are an error for scripts: the next claim would start from another backup, or empty.
func refusals(of []Finding) error {
	n := 0
	for i := range of {
		if of[i].Verdict == Refused {
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

// instanceOn is whose backups a PersistentVolumeClaim of backups has. Its name says that, where it was not cut and nobody else does.
func instanceOn(pvc string, of v1.Instance) (v1.Instance, error) {
	if of.Name != "" {
		if of.BackupPVCName() != pvc {
			return of, fmt.Errorf("the backups of %s %s are on PersistentVolumeClaim %s, and not %s", of.Kind, of.Name, of.BackupPVCName(), pvc)
		}
		return of, nil
	}
	const mark = "\x00"
	around := v1.Instance{Kind: of.Kind, Name: mark}.BackupPVCName()
	before, after, _ := strings.Cut(around, mark)
	name, ok := strings.CutPrefix(pvc, before)
	if ok {
		of.Name, ok = strings.CutSuffix(name, after)
	}
	if !ok || of.Name == "" || of.BackupPVCName() != pvc {
		return of, fmt.Errorf("the name %s does not say whose backups are there: give the claim's with --name, and --kind where it is no MySQL", pvc)
	}
	return of, nil
}

// namedNamespaces that get backups, by the names of those that they were taken in. Each pair is OLD=NEW, or OLD where it is called the same.
func namedNamespaces(pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range pairs {
		from, to, mapped := strings.Cut(pair, "=")
		if !mapped {
			to = from
		}
		for _, name := range []string{from, to} {
			if why := validation.IsDNS1123Label(name); len(why) > 0 {
				return nil, fmt.Errorf("%s: %q is no namespace: %s", pair, name, why[0])
			}
		}
		if other, twice := out[from]; twice && other != to {
			return nil, fmt.Errorf("%s: backups of namespace %s go to %s already", pair, from, other)
		}
		out[from] = to
	}
	return out, nil
}

// findController's container, empty with an error.
func findController(ctx context.Context, kube client.Client, namespace string) (corev1.Container, error) {
	d := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "crossplane-mysql"}, d); err != nil {
		return corev1.Container{}, fmt.Errorf("cannot see which image the controller runs: give it with --image: %w", err)
	}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return corev1.Container{}, errors.New("the controller's Deployment has no container: give the image with --image")
	}
	return d.Spec.Template.Spec.Containers[0], nil
}

// jobResources that the controller's Jobs have, as its flag or its variable says: a quota may refuse others. Nil are the usual ones.
func jobResources(controller corev1.Container) (*corev1.ResourceRequirements, error) {
	said := ""
	for _, e := range controller.Env {
		if e.Name == "JOB_RESOURCES" {
			said = e.Value
		}
	}
	for _, arg := range controller.Args {
		if value, is := strings.CutPrefix(arg, "--job-resources="); is {
			said = value
		}
	}
	return instance.ReadJobResources(said)
}
