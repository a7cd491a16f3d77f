package main

import (
	"context"
	"os"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/adopt"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/storekey"
)

// storeKeyCommand implements `kubectl mysql store-key`, which creates the keys of a BackupStore.
type storeKeyCommand struct{ storekey.Create }

// Run writes a Secret with new keys.
func (c *storeKeyCommand) Run(root *cli) error {
	if root.Namespace != "" {
		return plainf("--namespace is the namespace of claims. Use --system-namespace to specify the namespace of the " +
			"Secret")
	}
	return c.Write(os.Stdout)
}

// adoptCommand implements `kubectl mysql adopt`, which imports backups that have no BackupRecord.
type adoptCommand struct{ adopt.Flags }

// Run imports the backups on a volume or in a store.
func (c *adoptCommand) Run(ctx context.Context, root *cli) error {
	if err := c.Check(root.Namespace); err != nil {
		return err
	}
	s, err := root.open()
	if err != nil {
		return err
	}
	return c.Adopt(ctx, s.config, s.kube, root.Kind, s.namespace)
}
