package main

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/crossplane-mysql/crossplane-mysql/controller/adopt"
)

// adoptCommand is `controller adopt`.
type adoptCommand struct {
	adopt.Flags

	Namespace string `help:"With --volume: namespace of the claim." short:"n"`
	Kind      string `default:"MySQL" enum:"MySQL,Database" help:"With --volume: kind of the claim, MySQL or Database."`
}

// Run looks, and makes it known.
func (c *adoptCommand) Run(ctx context.Context) error {
	ctrl.SetLogger(logr.Discard())
	switch {
	case c.Volume != "" && c.Namespace == "":
		return errors.New("--namespace is that of the claim: with --volume it has to be said")
	case c.Store != "" && c.Namespace != "":
		return errors.New("--namespace is that of a volume's claim: with --store, --map names the namespaces that get backups")
	}
	cfg, err := config.GetConfig()
	if err != nil {
		return err
	}
	return c.Adopt(ctx, cfg, c.Kind, c.Namespace)
}
