// Package storekey creates the keys of a BackupStore, for the command `kubectl mysql store-key`.
package storekey

import (
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// Create contains the flags of the command `kubectl mysql store-key`.
type Create struct {
	Name            string `arg:"" help:"Name of the Secret, as in keySecretRef of the BackupStore."`
	SystemNamespace string `default:"crossplane-mysql-system" help:"Namespace of the controller."`
	PostQuantum     bool   `help:"Create post-quantum keys. They are about 2000 characters long."`
	To              string `help:"File to create, which only you can read. An existing file is an error and is kept, because backups may need its keys. If unset, the Secret is printed to standard output." type:"path"`
}

// Write creates the keys and writes the Secret to a file, or to out if no file is given.
func (c *Create) Write(out io.Writer) error {
	identity, recipient, err := c.newIdentity()
	if err != nil {
		return err
	}
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   map[string]string{"namespace": c.SystemNamespace, "name": c.Name},
		"stringData": map[string]string{v1.StoreIdentity: identity, v1.StoreSigningKey: store.NewSigningKey().Text()},
	})
	if err != nil {
		return err
	}
	raw = append([]byte("# Keep a copy of this file outside of the cluster. Its recipient, for spec.recipients of "+
		"the BackupStore:\n# "+recipient+"\n"), raw...)
	if c.To == "" {
		_, err = out.Write(raw)
		return err
	}
	if err := writeNew(c.To, raw); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The Secret is in %s. Its recipient is:\n%s\n", c.To, recipient)
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

// writeNew creates a file that only its owner can read. It fails if the file exists.
func writeNew(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // The user chooses the path.
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}
