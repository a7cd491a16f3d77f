// Package main is the composition function. It composes a data volume, a Deployment and a Service for a MySQL claim,
// and a Job if there is a backup to restore.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata" // Schedules have time zones, and the image contains none.

	"github.com/alecthomas/kong"
	"github.com/crossplane/function-sdk-go"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// version is set at build time for a package of another release.
var version = v1.Release //nolint:gochecknoglobals // The linker sets it.

// cli contains the command line flags of the function.
type cli struct {
	Debug   bool             `help:"Log each request and its result." short:"d"`
	Version kong.VersionFlag `help:"Print the version and exit."`

	Network        string `default:"tcp" help:"Network to listen on."`
	Address        string `default:":9443" help:"Address to listen on for gRPC."`
	TLSServerCerts string `env:"TLS_SERVER_CERTS_DIR" help:"Directory with tls.crt, tls.key and ca.crt. Clients must present a certificate of that CA. Crossplane sets it." name:"tls-server-certs-dir"`
	Insecure       bool   `help:"Listen without TLS. Use it only for crossplane render on your own machine."`
	MaxRecvSize    int    `default:"4" help:"Maximum size of a request, in MB." name:"max-recv-message-size"`
	MetricsAddress string `default:"" help:"Address to serve Prometheus metrics on, such as :8080. If empty, no metrics are served."`
}

// A call allocates much memory and keeps little of it. The heap may therefore grow to five times its live size before
// a garbage collection, but the limit in bytes keeps the process below 40 MiB. This allows a fifth more calls per
// second than the runtime's defaults. The limit is soft: larger requests take longer, but never fail. GOGC and
// GOMEMLIMIT override both values.
const (
	gcPercent   = 400
	memoryLimit = 22 << 20
)

func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}

// Run serves the function until its listener fails.
func (c *cli) Run() error {
	tuneMemory()
	log, err := function.NewLogger(c.Debug)
	if err != nil {
		return err
	}
	return function.Serve(&Function{log: log, release: version},
		function.Listen(c.Network, c.Address),
		function.MTLSCertificates(c.TLSServerCerts),
		function.Insecure(c.Insecure),
		function.MaxRecvMessageSize(c.MaxRecvSize*1024*1024),
		function.WithMetricsServer(c.MetricsAddress))
}

func main() {
	ctx := kong.Parse(&cli{},
		kong.Name("function"),
		kong.Description("The composition function of crossplane-mysql. Crossplane runs it from its package. To render "+
			"claims offline, run it with --insecure."),
		kong.Vars{"version": version})
	ctx.FatalIfErrorf(ctx.Run())
}
