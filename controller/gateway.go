package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"filippo.io/age"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/gateway"
	s3 "github.com/crossplane-mysql/crossplane-mysql/controller/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/stores"
)

// gatewayCommand is `controller gateway`.
type gatewayCommand struct {
	Settings      string        `help:"Folder with what the controller says: ${stores}, tls.crt and tls.key. It is read again when it changes." required:"" type:"path"`
	Address       string        `default:":8443" help:"Address to serve on, over TLS."`
	DrainTimeout  time.Duration `default:"30s" help:"How long requests that are under way may go on once it is told to stop. Who asked asks again."`
	HeaderTimeout time.Duration `default:"10s" hidden:""`
}

// Run the gateway until it is told to stop.
func (c *gatewayCommand) Run(ctx context.Context) error {
	log := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	known, err := c.waitForSettings(ctx, log)
	if err != nil {
		return err
	}
	s := &http.Server{
		Addr: c.Address, Handler: gateway.NewServer(known, log), ReadHeaderTimeout: c.HeaderTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.certificate},
		ErrorLog:  slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DrainTimeout)
		defer cancel()
		err := s.Shutdown(within)
		ended <- errors.Join(err, s.Close())
	}()
	log.Info("serving", slog.String("address", c.Address))
	if err := s.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-ended; err != nil {
		log.Info("requests were cut off", slog.Any("error", err))
	}
	return nil
}

// waitForSettings that the controller has not written yet.
func (c *gatewayCommand) waitForSettings(ctx context.Context, log *slog.Logger) (*gateway.Stores, error) {
	for {
		s, err := gateway.ReadStores(filepath.Join(c.Settings, stores.StoresFile))
		if err == nil {
			return s, nil
		}
		log.Info("waiting for what the controller says", slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
	}
}

// certificate of today: it is another one from time to time.
func (c *gatewayCommand) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Settings, corev1.TLSCertKey), filepath.Join(c.Settings, corev1.TLSPrivateKeyKey))
	return &pair, err
}

// storeKeyCommand is `controller store-key`.
type storeKeyCommand struct {
	Create storeKeyCreateCommand `cmd:"" help:"Make the keys of a BackupStore, as a Secret in YAML. Keep that file outside of the cluster, too: with it and the bucket everything can be had back, and without it nothing that is encrypted."`
}

// storeKeyCreateCommand is `controller store-key create`.
type storeKeyCreateCommand struct {
	Name        string `arg:"" help:"Name of the Secret, as keySecretRef says it."`
	Namespace   string `default:"crossplane-mysql-system" help:"The controller's namespace."`
	PostQuantum bool   `help:"Make keys that no quantum computer breaks. They are some 2000 characters long."`
	To          string `help:"File to make, readable by you alone. One that is there stays, and that is an error: without its keys backups may be lost. Without it the Secret goes to standard output." type:"path"`
}

// Run it.
func (c *storeKeyCreateCommand) Run() error {
	identity, recipient, err := c.newIdentity()
	if err != nil {
		return err
	}
	secret := corev1.Secret{StringData: map[string]string{v1.StoreIdentity: identity, v1.StoreSealKey: s3.NewSealKey().String()}}
	secret.APIVersion, secret.Kind, secret.Namespace, secret.Name = "v1", "Secret", c.Namespace, c.Name
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": secret.APIVersion, "kind": secret.Kind, "stringData": secret.StringData,
		"metadata": map[string]string{"namespace": secret.Namespace, "name": secret.Name},
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
	_, err = fmt.Fprintf(os.Stdout, "The Secret is in %s. Its recipient is:\n%s\n", c.To, recipient)
	return err
}

func (c *storeKeyCreateCommand) newIdentity() (identity, recipient string, err error) {
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
