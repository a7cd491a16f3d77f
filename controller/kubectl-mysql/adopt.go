package main

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/controller/adopt"
)

// adoptCommand is `kubectl mysql adopt`.
type adoptCommand struct{ adopt.Flags }

// Run looks, and makes it known.
func (c *adoptCommand) Run(ctx context.Context, of *cli) error {
	s, err := of.open()
	if err != nil {
		return err
	}
	return c.Adopt(ctx, s.config, of.Kind, s.namespace)
}
