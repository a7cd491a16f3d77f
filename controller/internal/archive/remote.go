package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/exit"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/gateway"
)

// Suffixes of archives in a store: as they are, and encrypted.
const (
	archiveSuffix   = ".tar.zst"
	encryptedSuffix = ".age"
)

// A Remote is the way to a store, and what a Job is told of it.
type Remote struct {
	Gateway *gateway.Client
	// Recipients that an archive is encrypted to; none where it is not.
	Recipients []age.Recipient
	// Manifest of the archive to unpack, as the controller has found it whole.
	Manifest []byte
}

// Files in the folder that a Job is given, beside those of the gateway.
const (
	// RecipientsFile has those that archives are encrypted to, one a line; empty or missing for none.
	RecipientsFile = "recipients"
	// ManifestFile is the manifest of the archive to unpack.
	ManifestFile = ManifestName
)

// OpenRemote by the files in a folder. Output takes a line for what is tried again.
func OpenRemote(folder string, output io.Writer) (*Remote, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	out := &Remote{}
	if out.Gateway, err = gateway.NewClient(folder, output); err != nil {
		return nil, err
	}
	to, err := root.ReadFile(RecipientsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(bytes.TrimSpace(to)) > 0 {
		if out.Recipients, err = age.ParseRecipients(bytes.NewReader(to)); err != nil {
			return nil, fmt.Errorf("cannot read the recipients: %w", err)
		}
	}
	if out.Manifest, err = root.ReadFile(ManifestFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return out, nil
}

// sendAndProve sends the archive as it is made, reads all of it back, and decrypts it. The object has a name of its own: what
// an earlier run has left, the controller removes.
func (b *Backup) sendAndProve(ctx context.Context, r *agent.Report, t tree, outline Contents, m *archiveManifest) error {
	name := strings.ToLower(rand.Text()[:10]) + archiveSuffix
	proof, err := newProofKey(b.Remote.Recipients)
	if err != nil {
		return err
	}
	if proof != nil {
		name += encryptedSuffix
	}
	key := path.Join(b.Archive, name)
	w, err := b.sendArchive(ctx, t, key, outline, proof)
	if err != nil {
		return explainRemote(err)
	}
	if w.Tree != outline.Tree {
		return errors.New("the data directory changed while it was copied")
	}
	if err := b.proveRemote(ctx, key, *w, proof); err != nil {
		return explainRemote(err)
	}
	b.afterStep(stepProven)
	m.Archive, m.Contents, m.Size, m.SHA256, m.FinishedAt = name, w.Contents, w.size, w.sum, time.Now().UTC()
	r.Manifest, err = m.shortJSON()
	return err
}

// shortJSON of a manifest, without what people only like to read where there is no room.
func (m *archiveManifest) shortJSON() ([]byte, error) {
	raw, err := json.Marshal(m)
	if err == nil && len(raw) > agent.MaxManifest {
		short := *m
		short.Image, short.Shutdown = "", ""
		raw, err = json.Marshal(&short)
	}
	if err == nil && len(raw) > agent.MaxManifest {
		err = fmt.Errorf("the manifest has %d bytes, and a report has room for %d", len(raw), agent.MaxManifest)
	}
	return raw, err
}

// A proofKey opens one archive, and is gone with the process: whoever writes backups can open no other. It is of the recipients'
// kind, since age mixes no others with those that a quantum computer would not break.
type proofKey interface {
	age.Identity

	recipient() age.Recipient
}

type classicKey struct{ *age.X25519Identity }

func (k classicKey) recipient() age.Recipient { return k.Recipient() }

type hybridKey struct{ *age.HybridIdentity }

func (k hybridKey) recipient() age.Recipient { return k.Recipient() }

// newProofKey for an archive that is encrypted; nil for one that is not.
func newProofKey(to []age.Recipient) (proofKey, error) {
	if len(to) == 0 {
		return nil, nil //nolint:nilnil // No key, and no error.
	}
	if _, ok := to[0].(*age.HybridRecipient); ok {
		k, err := age.GenerateHybridIdentity()
		return hybridKey{k}, err
	}
	k, err := age.GenerateX25519Identity()
	return classicKey{k}, err
}

// sendArchive as it is made. There is no object before all of it was sent.
func (b *Backup) sendArchive(ctx context.Context, t tree, key string, outline Contents, proof proofKey) (_ *written, err error) {
	o, err := b.Remote.Gateway.Create(ctx, key, outline.DataBytes+outline.DataBytes>>10+(outline.Entries+1)*entryBytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if aerr := o.Abort(ctx); aerr != nil && err != nil {
			b.printLinef("What was sent cannot be removed; the controller does it later: %v", aerr)
		}
	}()
	b.afterStep(stepBegun)
	to, err := b.Remote.encrypt(o, proof)
	if err != nil {
		return nil, err
	}
	m := agent.StartMeter(b.Output, agent.PhaseCopy, outline.DataBytes)
	defer m.Stop()
	w, err := t.writeTar(ctx, to, m)
	if err != nil {
		return nil, err
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	b.afterStep(stepWritten)
	if err := o.Close(); err != nil {
		return nil, err
	}
	b.afterStep(stepSynced)
	return w, nil
}

// encrypt what is written, if the archive is to be. Its Close ends the encryption only.
func (r *Remote) encrypt(to io.Writer, proof proofKey) (io.WriteCloser, error) {
	if proof == nil {
		return plain{to}, nil
	}
	return age.Encrypt(to, append([]age.Recipient{proof.recipient()}, r.Recipients...)...)
}

type plain struct{ io.Writer }

// Close does nothing.
func (plain) Close() error { return nil }

// proveRemote reads all of the archive back from the store, the way a restore does.
func (b *Backup) proveRemote(ctx context.Context, key string, w written, proof proofKey) error {
	f, err := b.Remote.Gateway.Open(ctx, key)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // Nothing was written.
	var in io.Reader = f
	if proof != nil {
		if in, err = decrypt(f, proof); err != nil {
			return err
		}
	}
	m := agent.StartMeter(b.Output, agent.PhaseProve, w.DataBytes)
	defer m.Stop()
	return readArchive(ctx, in, w, &drain{}, m)
}

// openArchive that a record names, by the manifest that the controller gave.
func (r *Remote) openArchive(ctx context.Context, key, sum string) (io.ReadCloser, *archiveManifest, error) {
	m, err := parseManifest(r.Manifest)
	switch {
	case err != nil:
		return nil, nil, err
	case m.Archive != path.Base(key):
		return nil, nil, exit.Damaged("%w", &otherArchiveError{m.Archive})
	case m.SHA256 != sum:
		return nil, nil, exit.Damaged("the manifest is of an archive with the SHA-256 %s, and the backup's record says %s", m.SHA256, sum)
	}
	f, err := r.Gateway.Open(ctx, key)
	if err != nil {
		return nil, nil, explainRemote(err)
	}
	if !strings.HasSuffix(key, encryptedSuffix) {
		return f, m, nil
	}
	in, err := r.decryptArchive(ctx, key, f)
	if err != nil {
		_ = f.Close() // Nothing was written.
		return nil, nil, explainRemote(err)
	}
	return decrypted{in, f}, m, nil
}

type decrypted struct {
	io.Reader
	io.Closer
}

func (r *Remote) decryptArchive(ctx context.Context, key string, f io.Reader) (io.Reader, error) {
	fileKey, err := r.Gateway.FileKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return decrypt(f, age.NewInjectedFileKeyIdentity(fileKey))
}

// decrypt an archive. What is wrong with it is damage, and what is wrong with the way to it is not.
func decrypt(f io.Reader, with age.Identity) (io.Reader, error) {
	way := &wayReader{from: f}
	out, err := age.Decrypt(way, with)
	if err != nil {
		return nil, way.causeOf(err)
	}
	return &decryptedReader{out, way}, nil
}

type decryptedReader struct {
	io.Reader

	way *wayReader
}

func (d *decryptedReader) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, d.way.causeOf(err)
}

// A wayReader remembers why nothing more came.
type wayReader struct {
	from    io.Reader
	failure error
}

func (w *wayReader) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.failure = err
	}
	return n, err
}

func (w *wayReader) causeOf(err error) error {
	if w.failure != nil {
		return explainRemote(w.failure)
	}
	return exit.Damaged("the archive cannot be decrypted: %w", err)
}

// explainRemote gives an error of the way to a store its exit code.
func explainRemote(err error) error {
	coded := new(agent.ExitError)
	switch {
	case errors.As(err, &coded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return exit.With(agent.ExitMissing, "the archive is not in the store: %w", err)
	}
	return err
}
