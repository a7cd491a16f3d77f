// Package main is the program that accompanies the composition function. It runs as the controller, and as the
// agent in Jobs that copy data.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // Schedules have time zones, and the image contains none.

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// version is the version of this build. It is the release, unless the linker sets another version.
var version = v1.Release //nolint:gochecknoglobals // The linker sets it.

// cli contains the commands of the program.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Start            startCommand            `cmd:"" help:"Run the controller for the cluster, or for the current kubeconfig context. It protects the data until a backup is verified, and takes that backup when a claim is deleted."`
	Backup           backupCommand           `cmd:"" help:"Archive the data directory of a stopped server, and verify the archive. Run by the backup Job."`
	Restore          restoreCommand          `cmd:"" help:"Unpack an archive onto a data volume without a database. Run by the restore Job."`
	Import           importCommand           `cmd:"" help:"Import the data of another server onto a data volume without a database. Run by the Job of an import."`
	ImportServer     importServerCommand     `cmd:"" help:"Clone a running server elsewhere, with a temporary server of this image. Run by the Job of an import, before 'import'."`
	FetchDump        fetchDumpCommand        `cmd:"" help:"Download a dump from a store to a data volume. Run by the Job of an import, before 'import-dump'."`
	ImportDump       importDumpCommand       `cmd:"" help:"Load a dump into a new database with a server of this image. Run by the Job of an import, before 'import'."`
	RestoreBase      restoreBaseCommand      `cmd:"" help:"Unpack an archive for a recovery to a time. Run by the restore Job, before 'apply-log'."`
	ApplyLog         applyLogCommand         `cmd:"" help:"Apply an archived binary log to an unpacked backup, with a temporary server of this image. Run by the restore Job, before 'import'."`
	Initialize       initializeCommand       `cmd:"" help:"Create a new database with the entrypoint of this image, completely or not at all. If the volume has data, only check it. Run by the server's pod before the server."`
	ValidateSettings validateSettingsCommand `cmd:"" help:"Start a server of this image with its my.cnf and without data, and log in. Run by a Job before a running server gets new settings."`
	Unpack           unpackCommand           `cmd:"" help:"Unpack an archive next to it on the backup volume, for a restore test. Run by the restore test Job."`
	Clone            cloneCommand            `cmd:"" help:"Clone the data of a running server, with a temporary server of this image. Run by the Job of a backup with method Online."`
	Bootcheck        bootCheckCommand        `cmd:"" help:"Start a temporary server of this image on an unpacked backup, and check every table. Run by the restore test Job. The exit code is 0 if the report could be written, regardless of the result, because the Job removes the copy next."`
	ExportMetrics    exportMetricsCommand    `cmd:"" help:"Run the mysqld_exporter of this image, and start it again when it exits. Run by the server's pod if metrics are enabled."`
	Own              ownCommand              `cmd:"" help:"Change the owner of a hostPath data volume to the server's user. Run by the server's pod before the server."`
	Wipe             wipeCommand             `cmd:"" help:"Delete the contents of a volume. Run by the wipe Job once a backup is verified, and by the restore test Job on the copy."`
	Survey           surveyCommand           `cmd:"" help:"List the archives on a backup volume and read each of them completely, without a change. Run by the Job of 'kubectl mysql adopt'."`
	Prune            pruneCommand            `cmd:"" help:"Delete archives that exceed the retention. Run by the prune Job once a newer one is verified."`
	Gateway          gatewayCommand          `cmd:"" help:"Give Jobs access to the BackupStores without the stores' credentials. Each Job has a token for one backup."`
	Install          installCommand          `cmd:"" help:"Copy this program to a directory where another image can run it."`
	VersionOfServer  versionCommand          `cmd:"" help:"Get the version of the server program of this image."`

	CheckInstallation checkInstallationCommand `cmd:"" help:"Wait until the controller, its CRDs and its policies are installed and the controller reports its release. Run by 'helm test'."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := newParser(ctx, &cli{})
	k, err := p.Parse(os.Args[1:])
	p.FatalIfErrorf(err)
	k.FatalIfErrorf(k.Run())
}

func newParser(ctx context.Context, target *cli) *kong.Kong {
	return kong.Must(target,
		kong.Name("controller"),
		kong.Description("The companion of crossplane-mysql's composition function. It never deletes data before a "+
			"backup of it is verified."),
		kong.Vars{
			"version": version, "agent": v1.AgentImage(version),
			"directory": v1.DataDirectory, "copy": v1.RestoreTestDir, "report": agent.TerminationLog,
			"access": agent.AccessDir, "stores": stores.StoresFile,
			"grace": rotate.DefaultGrace.String(), "settle": rotate.DefaultSettle.String(),
		},
		kong.BindTo(ctx, (*context.Context)(nil)))
}
