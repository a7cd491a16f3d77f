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

// Archives in a store have these suffixes. Encrypted archives have both.
const (
	archiveSuffix   = ".tar.zst"
	encryptedSuffix = ".age"
)

// A Remote is the connection to a store through the backup gateway, with the other data that a Job needs to use the
// store.
type Remote struct {
	Gateway *gateway.Client
	// Recipients are the public keys that an archive is encrypted for. Without recipients, the archive is not
	// encrypted.
	Recipients []age.Recipient
	// Manifest is the manifest of the archive to unpack. The controller has checked its integrity.
	Manifest []byte
}

// A Job's Secret contains these keys in addition to the gateway's URL, CA and token.
const (
	// RecipientsFile contains the recipients that archives are encrypted for, one per line. It is empty or missing if
	// archives are not encrypted.
	RecipientsFile = "recipients"
	// ManifestFile is the manifest of the archive to unpack.
	ManifestFile = ManifestName
)

// OpenRemote returns a Remote for the files in a directory. It writes a line to output for each retry.
func OpenRemote(dir string, output io.Writer) (*Remote, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // Nothing was written.
	out := &Remote{}
	if out.Gateway, err = gateway.NewClient(dir, output); err != nil {
		return nil, err
	}
	raw, err := root.ReadFile(RecipientsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if len(bytes.TrimSpace(raw)) > 0 {
		if out.Recipients, err = age.ParseRecipients(bytes.NewReader(raw)); err != nil {
			return nil, fmt.Errorf("cannot read the recipients: %w", err)
		}
	}
	if out.Manifest, err = root.ReadFile(ManifestFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return out, nil
}

// sendAndVerify streams the archive to the store, reads all of it back, and decrypts it. Each run uses a new object
// name. The controller deletes objects of earlier runs.
func (b *Backup) sendAndVerify(ctx context.Context, r *agent.Report, t tree, outline Contents,
	m *archiveManifest) error {
	name := strings.ToLower(rand.Text()[:10]) + archiveSuffix
	proof, err := newVerificationKey(b.Remote.Recipients)
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
		return errors.New("the data directory changed during the copy")
	}
	if err := b.verifyRemote(ctx, key, *w, proof); err != nil {
		return explainRemote(err)
	}
	b.hook.after(stepVerified)
	m.Archive, m.Contents, m.Size, m.SHA256, m.FinishedAt = name, w.Contents, w.size, w.sum, time.Now().UTC()
	r.Manifest, err = m.shortJSON()
	return err
}

// shortJSON returns the manifest for a report. If the manifest is too large, the fields that are only informative are
// omitted.
func (m *archiveManifest) shortJSON() ([]byte, error) {
	raw, err := json.Marshal(m)
	if err == nil && len(raw) > agent.MaxManifest {
		short := *m
		short.Image, short.Shutdown = "", ""
		raw, err = json.Marshal(&short)
	}
	if err == nil && len(raw) > agent.MaxManifest {
		err = fmt.Errorf("the manifest is %d bytes long, but a report can contain only %d bytes",
			len(raw), agent.MaxManifest)
	}
	return raw, err
}

// A verificationKey decrypts one archive to verify it. It exists only in this process, so that the Job cannot decrypt
// other archives. It has the same type as the recipients, because age does not mix post-quantum recipients with others.
type verificationKey interface {
	age.Identity

	recipient() age.Recipient
}

type classicKey struct{ *age.X25519Identity }

func (k classicKey) recipient() age.Recipient { return k.Recipient() }

type hybridKey struct{ *age.HybridIdentity }

func (k hybridKey) recipient() age.Recipient { return k.Recipient() }

// newVerificationKey returns a new key for an encrypted archive, or nil if there are no recipients.
func newVerificationKey(recipients []age.Recipient) (verificationKey, error) {
	if len(recipients) == 0 {
		return nil, nil //nolint:nilnil // No key, and no error.
	}
	if _, ok := recipients[0].(*age.HybridRecipient); ok {
		k, err := age.GenerateHybridIdentity()
		return hybridKey{k}, err
	}
	k, err := age.GenerateX25519Identity()
	return classicKey{k}, err
}

// sendArchive streams the archive to the store. The object exists only after all of it was sent.
func (b *Backup) sendArchive(ctx context.Context, t tree, key string, outline Contents, proof verificationKey) (_ *written,
	err error) {
	o, err := b.Remote.Gateway.Create(ctx, key, outline.DataBytes+outline.DataBytes>>10+(outline.Entries+1)*entryBytes)
	if err != nil {
		return nil, err
	}
	defer func() {
		if aerr := o.Abort(ctx); aerr != nil && err != nil {
			b.printLinef("The uploaded objects cannot be deleted now. The controller deletes them later: %v", aerr)
		}
	}()
	b.hook.after(stepBegun)
	writer, err := b.Remote.encrypt(o, proof)
	if err != nil {
		return nil, err
	}
	m := agent.StartMeter(b.Output, agent.PhaseCopy, outline.DataBytes)
	defer m.Stop()
	w, err := t.writeTar(ctx, writer, m)
	if err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	b.hook.after(stepWritten)
	if err := o.Close(); err != nil {
		return nil, err
	}
	b.hook.after(stepSynced)
	return w, nil
}

// encrypt returns a writer that encrypts for the recipients and for the verification key. If there is no verification
// key, the writer does not encrypt. Close finishes the encryption and does not close the underlying writer.
func (r *Remote) encrypt(writer io.Writer, proof verificationKey) (io.WriteCloser, error) {
	if proof == nil {
		return plain{writer}, nil
	}
	return age.Encrypt(writer, append([]age.Recipient{proof.recipient()}, r.Recipients...)...)
}

type plain struct{ io.Writer }

// Close does nothing, because the output is not encrypted.
func (plain) Close() error { return nil }

// verifyRemote verifies the archive: it reads all of it back from the store, as a restore does.
func (b *Backup) verifyRemote(ctx context.Context, key string, w written, proof verificationKey) error {
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
	m := agent.StartMeter(b.Output, agent.PhaseVerify, w.DataBytes)
	defer m.Stop()
	return readArchive(ctx, in, w, &drain{}, m)
}

// openArchive opens an archive in the store. It compares the key and the checksum with the manifest that the
// controller has checked.
func (r *Remote) openArchive(ctx context.Context, key, sum string) (io.ReadCloser, *archiveManifest, error) {
	m, err := parseManifest(r.Manifest)
	switch {
	case err != nil:
		return nil, nil, err
	case m.Archive != path.Base(key):
		return nil, nil, exit.Damaged("%w", &otherArchiveError{m.Archive})
	case m.SHA256 != sum:
		return nil, nil, exit.Damaged("the manifest belongs to an archive with the SHA-256 checksum %s, but the "+
			"BackupRecord has %s",
			m.SHA256, sum)
	}
	f, err := r.Gateway.Open(ctx, key)
	if err != nil {
		return nil, nil, explainRemote(err)
	}
	if !strings.HasSuffix(key, encryptedSuffix) {
		return f, m, nil
	}
	in, err := r.Decrypt(ctx, key, f)
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

// decrypt returns a reader that decrypts an archive. Its errors distinguish a damaged archive from a failed
// connection.
func decrypt(f io.Reader, identity age.Identity) (io.Reader, error) {
	way := &connReader{from: f}
	out, err := age.Decrypt(way, identity)
	if err != nil {
		return nil, way.causeOf(err)
	}
	return &decryptedReader{out, way}, nil
}

type decryptedReader struct {
	io.Reader

	way *connReader
}

func (d *decryptedReader) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, d.way.causeOf(err)
}

// A connReader records the connection error that interrupted the stream.
type connReader struct {
	from    io.Reader
	failure error
}

func (w *connReader) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.failure = err
	}
	return n, err
}

func (w *connReader) causeOf(err error) error {
	if w.failure != nil {
		return explainRemote(w.failure)
	}
	return exit.Damaged("the archive cannot be decrypted: %w", err)
}

// explainRemote adds ExitMissing to the error for an object that does not exist in the store.
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
