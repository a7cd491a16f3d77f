package main

import (
	"context"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/adopt"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/storekey"
)

// storeKeyCommand is `kubectl mysql store-key`.
type storeKeyCommand struct{ storekey.Create }

// Run makes the keys.
func (c *storeKeyCommand) Run(of *cli) error {
	if of.Namespace != "" {
		return plainf("--namespace is that of claims: --system-namespace says where the Secret goes")
	}
	return c.Create.Run()
}

// adoptCommand is `kubectl mysql adopt`.
type adoptCommand struct{ adopt.Flags }

// Run looks, and makes it known.
func (c *adoptCommand) Run(ctx context.Context, of *cli) error {
	if err := c.Check(of.Namespace); err != nil {
		return err
	}
	s, err := of.open()
	if err != nil {
		return err
	}
	return c.Adopt(ctx, s.config, s.kube, of.Kind, s.namespace)
}
