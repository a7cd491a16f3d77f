// Command kubectl-mysql is a plugin of kubectl with the common tasks for claims. It needs the permissions of a user
// who applies claims. To connect and to undo, it also needs access to the Secret and the pods of the claim. The commands doctor
// and adopt need the permissions of a platform team.
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

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// version is set when the program is built.
var version = "dev" //nolint:gochecknoglobals // The linker sets it.

// cli contains the global flags and the commands of the plugin.
type cli struct {
	Version    kong.VersionFlag `help:"Print the version and exit."`
	Kubeconfig string           `help:"Path of the kubeconfig file. The default is KUBECONFIG, or the file in the home directory."                   placeholder:"FILE"`
	Context    string           `help:"Context of the kubeconfig."                                                    placeholder:"NAME"`
	Namespace  string           `help:"Namespace of the instance. The default is the namespace of the context."                   placeholder:"NAME" short:"n"`
	Kind       string           `default:"MySQL"                                                                      enum:"MySQL,Database,MySQL.crossplane-mysql.io" help:"Kind of the instance: MySQL, Database, or MySQL.crossplane-mysql.io for a MySQL without a claim. With MySQL, the plugin uses the claim with that name. If there is none, it uses the MySQL without a claim."`
	Output     string           `default:"text"                                                                       enum:"text,json" help:"Output format: text, or json for programs. Progress is always printed to standard error." short:"o"`

	List    listCommand    `cmd:"" help:"List the instances of a namespace, each with its server, its last backup and its message."`
	Status  statusCommand  `cmd:"" help:"Show one instance: server, password, certificate, backups, deletion, and what it waits for."`
	Backup  backupCommand  `cmd:"" help:"Take a backup now, and wait until it is verified."`
	Restore restoreCommand `cmd:"" aliases:"recover" help:"Create an instance from a backup of another one, and wait until its server accepts clients."`
	Undo    undoCommand    `cmd:"" help:"Bring back the rows that one transaction deleted or changed, while the server keeps running."`
	Connect connectCommand `cmd:"" help:"Log in with the mysql client through a forwarded port, with the account of the connection Secret."`
	Doctor  doctorCommand  `cmd:"" help:"Check every instance, volume and backup of the cluster, and print problems and their solutions. For platform teams."`

	Adopt    adoptCommand    `cmd:"" help:"Import backups: find the archives on a volume or in a store that have no BackupRecord, and create their BackupRecords. For platform teams."`
	StoreKey storeKeyCommand `cmd:"" help:"Create the keys of a BackupStore, as a Secret in YAML. Keep a copy of that file outside of the cluster. With the file and the bucket, all backups can be restored. Without it, no encrypted backup can be restored."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second Ctrl-C kills the program.
	ctrl.SetLogger(logr.Discard())
	p := newParser(ctx, &cli{})
	k, err := p.Parse(os.Args[1:])
	p.FatalIfErrorf(err)
	k.FatalIfErrorf(k.Run())
}

func newParser(ctx context.Context, target *cli) *kong.Kong {
	return kong.Must(target,
		kong.Name("kubectl mysql"),
		kong.Description("Manage the MySQL instances of crossplane-mysql. Progress is printed to standard error, and "+
			"results to standard output."),
		kong.UsageOnError(),
		kong.Vars{"version": version},
		kong.Bind(target), kong.BindTo(ctx, (*context.Context)(nil)))
}

// A session contains the clients, the flags and the outputs of one command. It is for one cluster, namespace and kind
// of instance.
type session struct {
	config *rest.Config
	kube   client.Client
	kind   schema.GroupVersionKind
	// instead is the kind to look for if there is no instance of the first kind. It is empty once an instance was
	// found.
	instead   schema.GroupVersionKind
	namespace string
	// kubectl returns an exec.Cmd that runs kubectl with the flags for the same cluster.
	kubectl func(ctx context.Context, args ...string) *exec.Cmd
	// out receives the result of the command. progress receives lines about its progress.
	out, progress io.Writer
	json          bool
	// flags select the same cluster. They are appended to the plugin commands that are printed for the user.
	flags []string
	now   func() time.Time
	// pause is the delay between two reads of a claim.
	pause time.Duration
}

// pause is the default delay between two reads of a claim.
const pause = time.Second

// open creates the session of a command from the global flags.
func (c *cli) open() (*session, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = c.Kubeconfig
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules,
		&clientcmd.ConfigOverrides{CurrentContext: c.Context})
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
		config: config, kube: kube, namespace: namespace, out: os.Stdout, progress: os.Stderr, json: c.Output == "json",
		now: time.Now, pause: pause, flags: c.cluster(),
		kubectl: func(ctx context.Context, args ...string) *exec.Cmd {
			return exec.CommandContext(ctx, "kubectl", append(c.flags(namespace), args...)...) //nolint:gosec // It is kubectl's own command line.
		},
	}
	for _, k := range instance.Kinds() {
		if k.InstanceKind() == c.Kind {
			s.kind = k.Object
		}
		if c.Kind == v1.KindMySQL && !k.HasClaims() {
			s.instead = k.Object
		}
	}
	return s, nil
}

// flags returns the command-line flags with which kubectl uses the same cluster and namespace.
func (c *cli) flags(namespace string) []string {
	return append([]string{"--namespace", namespace}, c.cluster()...)
}

// cluster returns the command-line flags with which kubectl uses the same cluster.
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

// sayf prints a line about the progress of the command.
func (s *session) sayf(text string, args ...any) {
	fmt.Fprintf(s.progress, text+"\n", args...) //nolint:errcheck // A lost line is no reason to fail.
}
