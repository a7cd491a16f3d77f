// Command kubectl-mysql is a plugin of kubectl: what a developer asks of a claim, and has done with it, in one word each. It needs the
// rights on claims that whoever applies them has, to connect those on its Secret and pods, and for the doctor and adopt those of a platform team.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// version is set when the program is built.
var version = "dev" //nolint:gochecknoglobals // The linker sets it.

// cli is the command line.
type cli struct {
	Version    kong.VersionFlag `help:"Print the version and exit."`
	Kubeconfig string           `help:"Kubeconfig file, instead of KUBECONFIG or that in the home."                   placeholder:"FILE"`
	Context    string           `help:"Context of the kubeconfig."                                                    placeholder:"NAME"`
	Namespace  string           `help:"Namespace of the claim; the context's where it is not said."                   placeholder:"NAME" short:"n"`
	Kind       string           `default:"MySQL"                                                                      enum:"MySQL,Database" help:"Kind of the claim: MySQL or Database."`
	Output     string           `default:"text"                                                                       enum:"text,json" help:"What to print: text for people, json for programs." short:"o"`

	List    listCommand    `cmd:"" help:"List the claims of a namespace, each with its server, its last backup, and what it says."`
	Status  statusCommand  `cmd:"" help:"Show one claim on one screen: server, password, backups, deletion, and what it waits for."`
	Backup  backupCommand  `cmd:"" help:"Have a backup taken now, and wait until it is proven."`
	Restore restoreCommand `cmd:"" help:"Make a new claim from the backups of another one, and wait until its server takes clients."`
	Connect connectCommand `cmd:"" help:"Run the mysql client, logged in, through a forwarded port."`
	Doctor  doctorCommand  `cmd:"" help:"List every instance, volume and backup of the cluster: what protects each, and what to do. For platform teams."`

	Adopt    adoptCommand    `cmd:"" help:"Find again what lies on a backup volume or in a store and has no records, and have them made. For platform teams."`
	StoreKey storeKeyCommand `cmd:"" help:"Make the keys of a BackupStore, as a Secret in YAML. Keep that file outside of the cluster, too: with it and the bucket everything can be had back, and without it nothing that is encrypted."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // What does not heed the first Ctrl-C ends with the second.
	ctrl.SetLogger(logr.Discard())
	p := newParser(ctx, &cli{})
	k, err := p.Parse(os.Args[1:])
	p.FatalIfErrorf(err)
	k.FatalIfErrorf(k.Run())
}

func newParser(ctx context.Context, into *cli) *kong.Kong {
	return kong.Must(into,
		kong.Name("kubectl mysql"),
		kong.Description("MySQL claims of crossplane-mysql. Progress goes to the standard error; what was asked for, to the standard output."),
		kong.UsageOnError(),
		kong.Vars{"version": version},
		kong.Bind(into), kong.BindTo(ctx, (*context.Context)(nil)))
}

// A session is with one cluster, about claims of one kind and namespace.
type session struct {
	config    *rest.Config
	kube      client.Client
	kind      schema.GroupVersionKind
	namespace string
	// kubectl runs it with the same cluster.
	kubectl func(ctx context.Context, args ...string) *exec.Cmd
	// out has what was asked for, and progress how far it is.
	out, progress io.Writer
	json          bool
	// where are the flags with which the plugin finds the same cluster again.
	where []string
	now   func() time.Time
	// pause between two looks.
	pause time.Duration
}

// pause between two looks at a claim that one waits for.
const pause = time.Second

// open a session.
func (c *cli) open() (*session, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context})
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, err
	}
	if c.Namespace != "" {
		namespace = c.Namespace
	}
	config, err := loaded.ClientConfig()
	if err != nil {
		return nil, err
	}
	config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	kube, err := instance.NewClient(config)
	if err != nil {
		return nil, err
	}
	s := &session{
		config: config, kube: kube, namespace: namespace, out: os.Stdout, progress: os.Stderr, json: c.Output == "json", now: time.Now, pause: pause, where: c.cluster(),
		kubectl: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "kubectl", append(c.flags(namespace), args...)...) //nolint:gosec // It is kubectl's own command line.
		},
	}
	for _, k := range instance.Kinds() {
		if k.Claim.Kind == c.Kind {
			s.kind = k.Claim
		}
	}
	return s, nil
}

// flags of kubectl for the same cluster and namespace.
func (c *cli) flags(namespace string) []string {
	return append([]string{"--namespace", namespace}, c.cluster()...)
}

// cluster as flags name it.
func (c *cli) cluster() []string {
	var out []string
	if c.Kubeconfig != "" {
		out = append(out, "--kubeconfig", c.Kubeconfig)
	}
	if c.Context != "" {
		out = append(out, "--context", c.Context)
	}
	return out
}

// sayf how far it is.
func (s *session) sayf(text string, args ...any) {
	fmt.Fprintf(s.progress, text+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
