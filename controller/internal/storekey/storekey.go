// Package storekey makes the keys of a BackupStore, as a command of the controller and of kubectl's plugin.
package storekey

import (
	"errors"
	"fmt"
	"os"

	"filippo.io/age"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// Create is the command line.
type Create struct {
	Name            string `arg:"" help:"Name of the Secret, as keySecretRef says it."`
	SystemNamespace string `default:"crossplane-mysql-system" help:"The controller's own namespace."`
	PostQuantum     bool   `help:"Make keys that no quantum computer breaks. They are some 2000 characters long."`
	To              string `help:"File to make, readable by you alone. One that is there stays, and that is an error: without its keys backups may be lost. Without it the Secret goes to standard output." type:"path"`
}

// Run makes the keys.
func (c *Create) Run() error {
	identity, recipient, err := c.newIdentity()
	if err != nil {
		return err
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]string{"namespace": c.SystemNamespace, "name": c.Name},
		"stringData": map[string]string{v1.StoreIdentity: identity, v1.StoreSealKey: store.NewSealKey().Text()},
	})
	if err != nil {
		return err
	}
	raw = append([]byte("# Keep this file where the cluster is not. Its recipient, for spec.recipients of the BackupStore:\n# "+recipient+"\n"), raw...)
	if c.To == "" {
		_, err = os.Stdout.Write(raw)
		return err
	}
	if err := writeNew(c.To, raw); err != nil {
		return err
	}
	_, err = fmt.Printf("The Secret is in %s. Its recipient is:\n%s\n", c.To, recipient)
	return err
}

func (c *Create) newIdentity() (identity, recipient string, err error) {
	if c.PostQuantum {
		id, err := age.GenerateHybridIdentity()
		if err != nil {
			return "", "", err
		}
		return id.String(), id.Recipient().String(), nil
	}
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return "", "", err
	}
	return id.String(), id.Recipient().String(), nil
}

// writeNew makes a file that nobody else reads, where there is none.
func writeNew(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // Who types it says where.
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}
