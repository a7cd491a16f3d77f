package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// checkInterval is the time between two checks of an installation that is not ready.
const checkInterval = 2 * time.Second

// controllerName is the name of the controller's Deployment.
const controllerName = "crossplane-mysql"

// checkInstallationCommand implements `controller check-installation`, which waits until the product is completely
// installed.
type checkInstallationCommand struct {
	Namespace string        `default:"crossplane-mysql-system" env:"POD_NAMESPACE" help:"The controller's namespace."`
	Timeout   time.Duration `default:"3m" help:"How long to wait until the installation is ready."`
	Platform  bool          `default:"true" help:"Wait until the controller writes its release to the status of the Platform." negatable:""`
	Function  bool          `default:"true" help:"Wait until the status of the Platform reports that the releases of the function and the controller match." negatable:""`
}

// Run waits until the product is completely installed, or until the timeout expires.
func (c *checkInstallationCommand) Run(ctx context.Context) error {
	cfg, err := config.GetConfig()
	if err != nil {
		return err
	}
	scheme, err := newCheckScheme()
	if err != nil {
		return err
	}
	reader, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	return c.waitFor(ctx, os.Stdout, reader)
}

// newCheckScheme returns a scheme with the kinds that the check reads.
func newCheckScheme() (*runtime.Scheme, error) {
	scheme, err := instance.NewScheme()
	if err != nil {
		return nil, err
	}
	return scheme, apiextensionsv1.AddToScheme(scheme)
}

// waitFor waits until check returns no error. It prints each new error, and returns the last one if the timeout
// expires.
func (c *checkInstallationCommand) waitFor(ctx context.Context, out io.Writer, reader client.Reader) error {
	var found error
	printed := ""
	err := wait.PollUntilContextTimeout(ctx, checkInterval, c.Timeout, true, func(ctx context.Context) (bool, error) {
		found = c.check(ctx, reader)
		if found == nil {
			_, err := fmt.Fprintf(out, "The installation of release %s is ready.\n", version)
			return true, err
		}
		if text := found.Error(); text != printed {
			printed = text
			_, err := fmt.Fprintf(out, "Waiting for the installation:\n%s\n", text)
			return false, err
		}
		return false, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("the installation is not ready after %s: %w", c.Timeout, found)
	}
	return err
}

// check returns an error that lists everything that is missing in the installation.
func (c *checkInstallationCommand) check(ctx context.Context, reader client.Reader) error {
	errs := []error{c.checkController(ctx, reader)}
	for _, name := range installedCRDs() {
		errs = append(errs, checkCRD(ctx, reader, name))
	}
	for _, name := range installedPolicies() {
		errs = append(errs,
			checkGet(ctx, reader, "ValidatingAdmissionPolicy", name, &admissionregistrationv1.ValidatingAdmissionPolicy{}),
			checkGet(ctx, reader, "ValidatingAdmissionPolicyBinding", name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
	}
	if c.Platform {
		errs = append(errs, c.checkPlatform(ctx, reader))
	}
	return errors.Join(errs...)
}

func (c *checkInstallationCommand) checkController(ctx context.Context, reader client.Reader) error {
	d := &appsv1.Deployment{}
	if err := reader.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: controllerName}, d); err != nil {
		return fmt.Errorf("cannot get the controller's Deployment: %w", err)
	}
	for _, condition := range d.Status.Conditions {
		if condition.Type == appsv1.DeploymentAvailable && condition.Status == corev1.ConditionTrue &&
			d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas > 0 {
			return nil
		}
	}
	return fmt.Errorf("the Deployment %s in namespace %s is not available: check its pods and their logs", controllerName,
		c.Namespace)
}

func checkCRD(ctx context.Context, reader client.Reader, name string) error {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := checkGet(ctx, reader, "CustomResourceDefinition", name, crd); err != nil {
		return err
	}
	for _, condition := range crd.Status.Conditions {
		if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("the CustomResourceDefinition %s is not established", name)
}

func checkGet(ctx context.Context, reader client.Reader, kind, name string, into client.Object) error {
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, into); err != nil {
		return fmt.Errorf("cannot get the %s %s: %w", kind, name, err)
	}
	return nil
}

func (c *checkInstallationCommand) checkPlatform(ctx context.Context, reader client.Reader) error {
	p := &v1.Platform{}
	if err := checkGet(ctx, reader, v1.KindPlatform, v1.PlatformName, p); err != nil {
		return err
	}
	if p.Status.ControllerRelease != version {
		return fmt.Errorf("the status of the Platform contains the controller's release %q instead of %q: the controller "+
			"updates it once a minute", p.Status.ControllerRelease, version)
	}
	ready := apimeta.FindStatusCondition(p.Status.Conditions, "Ready")
	if !c.Function || ready != nil && ready.Status == metav1.ConditionTrue {
		return nil
	}
	if ready == nil {
		return errors.New("the Platform has no condition Ready")
	}
	return fmt.Errorf("the Platform's condition Ready is %s: %s", ready.Status, ready.Message)
}

// installedCRDs returns the names of the CRDs that are installed with the controller.
func installedCRDs() []string {
	return []string{"backuprecords.crossplane-mysql.io", "backups.crossplane-mysql.io", "backupstores.crossplane-mysql.io",
		"platforms.crossplane-mysql.io"}
}

// installedPolicies returns the names of the admission policies that are installed with the controller. Each policy
// has a binding with the same name.
func installedPolicies() []string {
	return []string{"crossplane-mysql-controller-claims", "crossplane-mysql-controller-instances",
		"crossplane-mysql-controller-jobs", "crossplane-mysql-controller-scale", "crossplane-mysql-controller-secrets",
		"crossplane-mysql-controller-servers", "crossplane-mysql-controller-volumes", "crossplane-mysql-keep-records",
		"crossplane-mysql-no-foreground", "crossplane-mysql-protect-mysqls"}
}
