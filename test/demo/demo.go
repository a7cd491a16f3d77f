package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// newPassword is the password to which the demo changes the server's password.
const newPassword = "n3w-password"

// A demo contains the settings and the state of one run of the demo.
type demo struct {
	screen  *screen
	timeout time.Duration

	// own is true if the demo boots its own cluster, which is deleted afterwards. Otherwise it uses an existing
	// cluster.
	own                        bool
	cluster, kubeconfig, cache string
	kube                       *kubectl

	// asked is the namespace that the user specified. namespace is the namespace that the demo uses.
	asked, namespace string
	// api is the API that the demo uses.
	api            *api
	name, database string
	// image is the server image, or "" for the image in the manifest.
	image string
	// originalPassword is the password when the manifest is applied. password is the password that the server currently
	// accepts.
	originalPassword, password string

	// applied is true once the demo has created its claim or MySQL. last is the last status line that was printed.
	applied bool
	last    string
	// rows contains the rows of the database that the demo has read before the deletion. They must be the same after
	// the restore.
	rows string
	// withStore is true if the demo also backs up to an object store and restores from it. certificate is the TLS
	// certificate of the store's server.
	withStore   bool
	certificate string
	// left contains a command for each object of the demo that is left in the cluster. The command deletes that object.
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

// A step is a part of the demo that is announced with a title.
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
		all = append(all, step{"A second copy, off the cluster: the next backup goes to a store", d.store},
			step{"Rows are deleted by mistake: they come back, in the running server and in a second one", d.mistake})
	}
	return all
}

// play runs all steps of the demo. It stops at the first step that fails.
func (d *demo) play(ctx context.Context) (err error) {
	if d.cache, err = os.MkdirTemp("", "demo-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.cache) //nolint:errcheck // A temporary directory.
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

// failed prints which step of the demo failed and why, and how to delete the objects that are left.
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

// message returns the message in the status of the demo's object. If it cannot be read, it returns the last one that
// was printed.
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

// stays adds a command to left. The command deletes an object that the demo leaves in an existing cluster. A cluster
// that the demo has booted is deleted as a whole.
func (d *demo) stays(end string) {
	if !d.own {
		d.left = append(d.left, end)
	}
}

// goOn prints commands with which the user can experiment with the server, and commands that delete the objects that
// are left.
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

// wherePassword returns the part of a sentence with the server's password, or with the name of the Secret that contains
// it.
func (d *demo) wherePassword() string {
	if !d.api.stated && d.password == d.originalPassword {
		return ", which Secret " + d.connectionSecret() + " has"
	}
	return ": " + d.password
}

// poll repeats check until it returns no error. After the timeout, it returns the last error.
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
