package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// newPassword of the claim in the end.
const newPassword = "n3w-password"

// A demo is one run.
type demo struct {
	screen  *screen
	timeout time.Duration

	// own is true if the cluster is one that we boot.
	own                        bool
	cluster, kubeconfig, cache string
	kube                       *kubectl

	// asked is the namespace that the user named, namespace the one that it is.
	asked, namespace string
	// api is the API that the demo uses.
	api            *api
	name, database string
	// image of the server; empty for that of the manifest.
	image string
	// originalPassword is the password after the manifest was applied, and password the one that the server accepts.
	originalPassword, password string

	// applied is true as soon as there is a claim of ours, and last the last line about it.
	applied bool
	last    string
	// rows of the table before the claim was deleted.
	rows string
	// withStore is true if a store is shown, too, and certificate that of its server.
	withStore   bool
	certificate string
	// left is how to end what stays.
	left []string
}

func newDemo(c *cli, s *screen) (*demo, error) {
	kubeconfig, err := absolute(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := enterRepository(); err != nil {
		return nil, err
	}
	api, err := apiOf(c.API)
	if err != nil {
		return nil, err
	}
	original, err := api.read()
	if err != nil {
		return nil, err
	}
	d := &demo{
		screen: s, timeout: c.Patience, own: c.Kubeconfig == "", withStore: c.Store || c.Kubeconfig == "", cluster: c.Cluster,
		kubeconfig: kubeconfig, asked: c.Namespace, image: c.Image,
		api: api, name: original.Name, database: original.Spec.Database,
	}
	if p := original.Spec.Password; p != nil {
		d.originalPassword, d.password = *p, *p
	}
	if d.own {
		d.kubeconfig, err = ownKubeconfig(c.Cluster)
	}
	return d, err
}

// A step of the demo.
type step struct {
	title string
	run   func(context.Context) error
}

func (d *demo) steps() []step {
	first := step{"A cluster: the one of KUBECONFIG", d.boot}
	if d.own {
		first.title = "A cluster: Kubernetes and Crossplane, booted on this machine (" + d.make("cluster-up") + ")"
	}
	all := []step{
		first,
		{"The product: packages, access rights, controller", d.install},
		{"A developer asks for MySQL", d.create},
		{"The original session", d.session},
		{"The " + d.api.noun + " is deleted: nothing goes before a backup is proved", d.remove},
		{"The " + d.api.noun + " is created again: every row is there before the first client", d.again},
		{"The password changes in the running server", d.change},
	}
	if d.withStore {
		all = append(all, step{"A second copy, off the cluster: the next backup goes to a store", d.store})
	}
	return all
}

// play all steps.
func (d *demo) play(ctx context.Context) (err error) {
	if d.cache, err = os.MkdirTemp("", "demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.cache) //nolint:errcheck // A temporary folder.
	steps := d.steps()
	for i, s := range steps {
		place := fmt.Sprintf("%d/%d", i+1, len(steps))
		d.screen.show("\n")
		d.screen.sayf("== %s %s ==", place, s.title)
		if err := s.run(ctx); err != nil {
			d.failed(ctx, place, s.title, err)
			return err
		}
	}
	d.end()
	return nil
}

// failed says what is wrong, and what is left.
func (d *demo) failed(ctx context.Context, place, title string, err error) {
	d.screen.show("\n")
	if ctx.Err() != nil {
		d.screen.sayf("Interrupted in step %s (%s).", place, title)
	} else {
		d.screen.sayf("FAILED in step %s (%s): %v", place, title, err)
	}
	if d.applied {
		d.screen.sayf("The %s said last: %s", d.api.noun, d.message(context.WithoutCancel(ctx)))
	}
	d.goOn()
}

// message of the claim now, or what was last seen of it.
func (d *demo) message(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	out, err := d.kube.ask(ctx, "get", d.api.resource, d.name, "--ignore-not-found", "--output=jsonpath={.status.message}")
	if err == nil && strings.TrimSpace(out) != "" {
		return out
	}
	return d.last
}

func (d *demo) end() {
	d.screen.show("\n")
	d.screen.sayf("Done: no row was lost, and all went as promised.")
	d.goOn()
}

// stays what a command ends, in somebody else's cluster: our own ends with all that is in it.
func (d *demo) stays(end string) {
	if !d.own {
		d.left = append(d.left, end)
	}
}

// goOn says how to go on by hand, and how to end what is left.
func (d *demo) goOn() {
	var lines []string
	if d.applied {
		lines = append(lines, "Go on by hand:")
		if d.own {
			lines = append(lines, "  export KUBECONFIG="+quote(d.kubeconfig))
		}
		if alias := d.kube.alias(); alias != "" {
			lines = append(lines, "  "+alias)
		}
		for _, args := range [][]string{
			{"get", d.api.resource},
			{"describe", d.api.resource, d.name},
			{"exec", "-it", d.deployment(), "-c", mysql, "--", mysql, "-u", "root", "-p", d.database},
		} {
			lines = append(lines, "  "+d.kube.shell(command{args: args}))
		}
		lines[len(lines)-1] += "   # asks for the password" + d.wherePassword()
	}
	if len(d.left) > 0 {
		lines = append(lines, "End it:")
	}
	for i := len(d.left) - 1; i >= 0; i-- {
		lines = append(lines, "  "+d.left[i])
	}
	if len(lines) == 0 {
		lines = append(lines, "Nothing of it is left.")
	}
	d.screen.show(strings.Join(lines, "\n") + "\n")
}

// wherePassword says what the password is. A generated one is in a Secret only.
func (d *demo) wherePassword() string {
	if !d.api.stated && d.password == d.originalPassword {
		return ", which Secret " + d.connectionSecret() + " has"
	}
	return ": " + d.password
}

// poll until a check has no complaint. The last one is the error when the time is over.
func (d *demo) poll(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if over := pause(ctx); over != nil {
			return fmt.Errorf("after %s: %w", d.timeout, last)
		}
	}
}
