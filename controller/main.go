// Package main is the companion of the composition function. It runs in the
// cluster as the controller, and in the Jobs that copy data as the agent.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // Schedules have time zones, and the image has none.

	"github.com/alecthomas/kong"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/rotate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// version is set when the program is built.
var version = "dev" //nolint:gochecknoglobals // The linker sets it.

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and exit."`

	Start            startCommand            `cmd:"" help:"Watch over the databases of the cluster, or of the current kubeconfig context: keep their data until a backup is proven, and take that backup when a claim is deleted."`
	Doctor           doctorCommand           `cmd:"" help:"List every instance, volume and backup of the cluster: what protects each, what is wrong with it, and what to do. Changes nothing."`
	Adopt            adoptCommand            `cmd:"" help:"Find again what lies on a backup volume whose records are lost, and have the records made again."`
	Backup           backupCommand           `cmd:"" help:"Archive the data directory of a stopped server, and prove the archive. Run by the backup Job."`
	Restore          restoreCommand          `cmd:"" help:"Unpack an archive onto a data volume that holds no database. Run by the restore Job."`
	Import           importCommand           `cmd:"" help:"Put the data of a server that is not ours onto a data volume that holds no database. Run by the Job of an import."`
	ImportServer     importServerCommand     `cmd:"" help:"Clone a server that runs elsewhere, with a throwaway server of this image. Run by the Job of an import, before 'import'."`
	FetchDump        fetchDumpCommand        `cmd:"" help:"Bring a dump out of a store onto a data volume. Run by the Job of an import, before 'import-dump'."`
	ImportDump       importDumpCommand       `cmd:"" help:"Make a database of a dump with a server of this image. Run by the Job of an import, before 'import'."`
	Initialize       initializeCommand       `cmd:"" help:"Make a new database with the entrypoint of this image, all of it or nothing, or see that the volume has its data. Run by the server's pod before the server."`
	ValidateSettings validateSettingsCommand `cmd:"" help:"Start a server of this image with its my.cnf and without data, and log in. Run by a Job before a running server gets new settings."`
	Unpack           unpackCommand           `cmd:"" help:"Unpack an archive beside it, on the backup volume, for a server to be tried on. Run by the restore test Job."`
	Clone            cloneCommand            `cmd:"" help:"Clone the data of a server that runs, with a throwaway server of this image. Run by the Job of a backup with method Online."`
	Bootcheck        bootCheckCommand        `cmd:"" help:"Start a throwaway server of this image on an unpacked backup, and check every table. Run by the restore test Job. It ends with 0 whenever it could write its report, whatever that says: the Job goes on to remove the copy."`
	Own              ownCommand              `cmd:"" help:"Give a data volume in a folder of the node to the server's user. Run by the server's pod before the server."`
	Wipe             wipeCommand             `cmd:"" help:"Empty a volume. Run by the wipe Job once a backup is proven, and by the restore test Job on the copy."`
	Survey           surveyCommand           `cmd:"" help:"Look at what lies on a backup volume, read each archive as a whole, and change nothing. Run by the Job of an adoption."`
	Prune            pruneCommand            `cmd:"" help:"Remove archives that are too many. Run by the prune Job once a newer one is proven."`
	Gateway          gatewayCommand          `cmd:"" help:"Let Jobs at the stores that backups go to, without the stores' credentials: each has a token for one backup."`
	StoreKey         storeKeyCommand         `cmd:"" help:"Keys of the stores that backups go to."`
	Install          installCommand          `cmd:"" help:"Copy this program to where another image can run it."`
	VersionOfServer  versionCommand          `cmd:"" help:"Ask the server program of this image for its version."`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	p := newParser(ctx, &cli{})
	k, err := p.Parse(os.Args[1:])
	p.FatalIfErrorf(err)
	k.FatalIfErrorf(k.Run())
}

func newParser(ctx context.Context, into *cli) *kong.Kong {
	return kong.Must(into,
		kong.Name("controller"),
		kong.Description("The companion of crossplane-mysql's composition function. It never deletes data that no proven backup holds."),
		kong.Vars{
			"version": version, "directory": v1.DataDirectory, "copy": v1.RestoreTestFolder, "report": agent.TerminationLog, "access": agent.AccessFolder, "stores": stores.StoresFile,
			"grace": rotate.DefaultGrace.String(), "settle": rotate.DefaultSettle.String(),
		},
		kong.BindTo(ctx, (*context.Context)(nil)))
}
