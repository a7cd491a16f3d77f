package main

import (
	"context"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/exporter"
)

// exportMetricsCommand implements `controller export-metrics`, which starts mysqld_exporter. It runs in the image of
// mysqld_exporter.
type exportMetricsCommand struct {
	Account string `help:"File with the account of the exporter, as a my.cnf. The command waits until it exists." required:"" type:"path"`
	Port    int    `help:"Port of the metrics." required:""`
}

// Run runs mysqld_exporter until the pod is deleted.
func (c *exportMetricsCommand) Run(ctx context.Context) error {
	tuneMemory()
	e := exporter.Exporter{Account: c.Account, Port: c.Port, Output: os.Stdout}
	return e.Run(ctx)
}
