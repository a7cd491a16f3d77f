package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/adopt"
)

// adoptCommand is `controller adopt`.
type adoptCommand struct {
	Volume    string   `help:"PersistentVolumeClaim of the backups, backup-NAME-pvc." required:"" xor:"place"`
	Store     string   `help:"BackupStore of the backups." required:"" xor:"place"`
	Namespace []string `help:"Namespace of the claim. With --store: each namespace that gets backups, as OLD=NEW, or OLD where it is called the same; without one all backups there are listed." short:"n"`
	Kind      string   `default:"MySQL" enum:"MySQL,Database" help:"With --volume: kind of the claim, MySQL or Database."`
	Name      string   `help:"With --volume: name of the claim, where that of the PersistentVolumeClaim does not say it."`
	DryRun    bool     `help:"Look, and write nothing."`

	SystemNamespace string `default:"crossplane-mysql-system" help:"The controller's own namespace, where its Deployment says which image it is."`
	Image           string `help:"Image of the Job that reads the volume; the controller's where it is not said."`
}

// Help that follows the flags.
func (*adoptCommand) Help() string {
	return "For backups whose records are lost, with the notes and labels of their volume: after a restored etcd, or where the volume was brought from elsewhere; and for those in a store that another cluster has left. " +
		"On a volume a Job reads each archive as a whole. What is another instance's, damaged, or not where the controller puts a backup is refused, and nothing on the volume is changed. " +
		"For the others the volume gets its labels and notes, and the controller makes their records. A claim of that name that was held goes on then. " +
		"In a store the controller reads the notes, and believes those that have the seal of its key. They become backups of the namespaces that are named."
}

// Run looks, and makes it known.
func (c *adoptCommand) Run(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard())
	if c.Store != "" {
		return c.adoptFromStore(ctx)
	}
	of, err := c.instanceOf()
	if err != nil {
		return err
	}
	cfg, kube, err := connect()
	if err != nil {
		return err
	}
	set, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	image, err := c.agentImage(ctx, kube)
	if err != nil {
		return err
	}
	a := adopt.Adoption{
		Kube: kube, Of: of, AgentImage: image, DryRun: c.DryRun, Output: os.Stdout, Progress: os.Stderr,
		Log: func(ctx context.Context, namespace, pod, container string) (io.ReadCloser, error) {
			return set.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container}).Stream(ctx)
		},
	}
	_, err = a.Run(ctx)
	return err
}

func (c *adoptCommand) adoptFromStore(ctx context.Context) error {
	namespaces, err := c.namespaces()
	if err != nil {
		return err
	}
	_, kube, err := connect()
	if err != nil {
		return err
	}
	a := adopt.StoreAdoption{Kube: kube, Store: c.Store, Namespaces: namespaces, DryRun: c.DryRun, Output: os.Stdout, Progress: os.Stderr}
	return a.Run(ctx)
}

// namespaces that get backups, by the names of those that they were taken in.
func (c *adoptCommand) namespaces() (map[string]string, error) {
	out := map[string]string{}
	for _, pair := range c.Namespace {
		from, to, mapped := strings.Cut(pair, "=")
		if !mapped {
			to = from
		}
		for _, name := range []string{from, to} {
			if why := validation.IsDNS1123Label(name); len(why) > 0 {
				return nil, fmt.Errorf("--namespace %s: %q is no namespace: %s", pair, name, why[0])
			}
		}
		if other, twice := out[from]; twice && other != to {
			return nil, fmt.Errorf("--namespace %s: backups of namespace %s go to %s already", pair, from, other)
		}
		out[from] = to
	}
	return out, nil
}

// instanceOf the PersistentVolumeClaim.
func (c *adoptCommand) instanceOf() (v1.Instance, error) {
	if len(c.Namespace) != 1 || strings.Contains(c.Namespace[0], "=") {
		return v1.Instance{}, errors.New("--namespace is that of the claim: with --volume there is one")
	}
	of := v1.Instance{Kind: c.Kind, Namespace: c.Namespace[0], Name: c.Name}
	if of.Name != "" {
		if of.BackupPVCName() != c.Volume {
			return of, fmt.Errorf("the backups of %s %s are on PersistentVolumeClaim %s, and not %s", of.Kind, of.Name, of.BackupPVCName(), c.Volume)
		}
		return of, nil
	}
	const mark = "\x00"
	around := v1.Instance{Kind: c.Kind, Name: mark}.BackupPVCName()
	before, after, _ := strings.Cut(around, mark)
	name, ok := strings.CutPrefix(c.Volume, before)
	if ok {
		of.Name, ok = strings.CutSuffix(name, after)
	}
	if !ok || of.Name == "" || of.BackupPVCName() != c.Volume {
		return of, fmt.Errorf("the name %s does not say whose backups are there: give the claim's with --name, and --kind where it is no MySQL", c.Volume)
	}
	return of, nil
}

// agentImage that the controller runs.
func (c *adoptCommand) agentImage(ctx context.Context, kube client.Client) (string, error) {
	if c.Image != "" {
		return c.Image, nil
	}
	d := &appsv1.Deployment{}
	if err := kube.Get(ctx, client.ObjectKey{Namespace: c.SystemNamespace, Name: "crossplane-mysql"}, d); err != nil {
		return "", fmt.Errorf("cannot see which image the controller runs: give it with --image: %w", err)
	}
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return "", errors.New("the controller's Deployment has no container: give the image with --image")
	}
	return d.Spec.Template.Spec.Containers[0].Image, nil
}
