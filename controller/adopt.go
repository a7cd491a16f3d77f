package main

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/adopt"
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
	if c.Volume != "" && c.Namespace == "" {
		return errors.New("--namespace is that of the claim: with --volume it has to be said")
	}
	if err := c.Check(c.Namespace); err != nil {
		return err
	}
	cfg, kube, err := connect()
	if err != nil {
		return err
	}
	return c.Adopt(ctx, cfg, kube, c.Kind, c.Namespace)
}
