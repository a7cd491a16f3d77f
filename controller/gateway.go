package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/stores"
)

// gatewayCommand implements `controller gateway`, the proxy through which Jobs access stores.
type gatewayCommand struct {
	Settings      string        `help:"Directory with the settings from the controller: ${stores}, tls.crt and tls.key. Changes are read while the gateway runs." required:"" type:"path"`
	Address       string        `default:":8443" help:"Address to listen on, over TLS."`
	DrainTimeout  time.Duration `default:"30s" help:"How long running requests may continue after the gateway receives the signal to stop. Clients retry interrupted requests."`
	HeaderTimeout time.Duration `default:"10s" hidden:""`
	Debug         bool          `help:"Also log each accepted request, each request to a store, and failed connections." short:"d"`
}

// Run runs the gateway until it is stopped.
func (c *gatewayCommand) Run(ctx context.Context) error {
	log := c.newLogger(os.Stdout)
	known, err := c.waitForSettings(ctx, log)
	if err != nil {
		return err
	}
	jobs := gateway.NewServer(known, log)
	s := &http.Server{
		Handler: jobs, ConnContext: jobs.ConnContext, ReadHeaderTimeout: c.HeaderTimeout, IdleTimeout: time.Minute,
		MaxHeaderBytes: 16 << 10,
		TLSConfig:      &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.certificate},
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.DrainTimeout)
		defer cancel()
		err := s.Shutdown(within)
		ended <- errors.Join(err, s.Close())
	}()
	log.Info("Serving requests", slog.String("address", c.Address))
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Address)
	if err != nil {
		return err
	}
	if err := s.ServeTLS(jobs.Listen(l), "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	if err := <-ended; err != nil {
		log.Info("Stopped before all requests were served", slog.Any("error", err))
	}
	return nil
}

// newLogger returns a logger with the format of the controller: JSON, with times in seconds.
func (c *gatewayCommand) newLogger(w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch v := a.Value.Any().(type) {
		case time.Duration:
			a.Value = slog.Float64Value(v.Seconds())
		case slog.Level:
			if v < slog.LevelInfo { // V(1) of logr is between info and debug.
				a.Value = slog.StringValue(slog.LevelDebug.String())
			}
		}
		return a
	}}
	if c.Debug {
		o.Level = slog.LevelDebug
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// waitForSettings waits until the controller has written the settings, and reads them.
func (c *gatewayCommand) waitForSettings(ctx context.Context, log *slog.Logger) (*gateway.Stores, error) {
	for {
		s, err := gateway.ReadStores(filepath.Join(c.Settings, stores.StoresFile))
		if err == nil {
			return s, nil
		}
		log.Info("Waiting for the settings from the controller", slog.Any("error", err))
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(2 * time.Second):
		}
	}
}

// certificate reads the current certificate for each connection, because the controller renews it.
func (c *gatewayCommand) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.Settings, corev1.TLSCertKey),
		filepath.Join(c.Settings, corev1.TLSPrivateKeyKey))
	return &pair, err
}
