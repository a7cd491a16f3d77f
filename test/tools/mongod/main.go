// Command mongod replaces MongoDB's mongod, because there is no Debian package of it. It is FerretDB, which
// implements MongoDB's protocol and stores its data in SQLite. Like the official image, it has this program name,
// port, data directory and --version output, and shuts down cleanly on a signal.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/FerretDB/FerretDB/ferretdb"
)

const (
	module  = "github.com/FerretDB/FerretDB"
	address = ":27017"
	data    = "file:/data/db/"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mongod:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if slices.Contains(args, "--version") {
		return version()
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	db, err := ferretdb.New(&ferretdb.Config{Handler: "sqlite", SQLiteURL: data,
		Listener: ferretdb.ListenerConfig{TCP: address}})
	if err != nil {
		return err
	}
	return db.Run(ctx)
}

// version prints FerretDB's version in the same format as mongod.
func version() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("cannot tell what it was built of")
	}
	for _, d := range info.Deps {
		if d.Path == module {
			_, err := fmt.Printf("db version %s\nBuild Info: FerretDB\n", d.Version)
			return err
		}
	}
	return errors.New("cannot tell FerretDB's version")
}
