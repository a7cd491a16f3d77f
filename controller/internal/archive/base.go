package archive

import (
	"context"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/datavolume"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

// A Base unpacks the backup with which a recovery begins. Later containers of the pod apply the archived binary log
// to it, and then rename it.
type Base struct {
	Restore
	datavolume.Half
}

// Run unpacks the backup. It returns a report even if it fails. Each error is an ExitError.
func (b *Base) Run(ctx context.Context) (agent.Report, error) {
	return exit.Report(ctx, "restore-base", b.unpackBase)
}

func (b *Base) unpackBase(ctx context.Context, r *agent.Report) error {
	target, err := version.Read(b.Target)
	if err != nil {
		return fmt.Errorf("cannot read the version of the new server: %w", err)
	}
	if err := checkVersions(b.Source, b.SourceClean, target); err != nil {
		return err
	}
	if !sumPattern.MatchString(b.SHA256) {
		return exit.With(agent.ExitFailed, "%.100q is not a SHA-256 checksum", b.SHA256)
	}
	making, err := b.Begin(ctx)
	if r.Already = making == nil; r.Already || err != nil {
		return err
	}
	defer making.Close()
	f, m, err := b.openArchive(ctx)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	if err := m.checkSpace(making.OpenVolume()); err != nil {
		return err
	}
	if err := b.unpackInto(ctx, making.OpenVolume(), datavolume.ImportedHalf, f, m); err != nil {
		return err
	}
	fillReport(r, m)
	r.Version, r.CleanShutdown = b.Source, b.SourceClean
	return nil
}

// Open returns a reader for an object in the store.
func (r *Remote) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	f, err := r.Gateway.Open(ctx, key)
	return f, explainRemote(err)
}

// Decrypt returns a reader of the content of an encrypted object. The gateway sends the key for this object only.
func (r *Remote) Decrypt(ctx context.Context, key string, raw io.Reader) (io.Reader, error) {
	fileKey, err := r.Gateway.FileKey(ctx, key)
	if err != nil {
		return nil, explainRemote(err)
	}
	return decrypt(raw, age.NewInjectedFileKeyIdentity(fileKey))
}
