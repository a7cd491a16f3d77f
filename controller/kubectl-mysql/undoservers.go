package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/undo"
)

// An openedServer is a session with the MySQL server of an instance, through a forwarded port.
type openedServer struct {
	*undo.Server

	// stream opens another connection, which reads the binary log of the server.
	stream func(context.Context) (*binlog.Stream, error)
	close  func()
}

// openServer logs in to the server of an instance with its connection Secret.
func (s *session) openServer(ctx context.Context, claim *instance.Composite) (*openedServer, error) {
	switch {
	case !mayServe(claim.Conditions):
		return nil, plainf("the server of %s does not accept clients: %s", claim.GetName(), claim.Status.Message)
	case claim.Status.Binding == nil:
		return nil, plainf("the status of %s contains no connection Secret", claim.GetName())
	}
	secret := &corev1.Secret{}
	if err := s.kube.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: claim.Status.Binding.Name}, secret); err != nil {
		return nil, err
	}
	trusted, err := trustOf(secret)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	id := v1.Instance{Kind: claim.GetKind(), Namespace: s.namespace, Name: claim.GetName()}
	port, ended, err := s.forward(ctx, "service/"+id.ServiceName(), claim.Status.Endpoint)
	if err != nil {
		stop()
		return nil, err
	}
	out, err := openSession(ctx, secret, "127.0.0.1:"+port, trusted)
	if err != nil {
		stop()
		return nil, errors.Join(fmt.Errorf("cannot log in to %s: %w", claim.GetName(), err), <-ended)
	}
	closeSession := out.close
	out.close = func() {
		closeSession()
		stop()
		<-ended
	}
	return out, nil
}

// trustOf returns the TLS settings that accept only the certificate authority of the server. The certificate is not valid
// for 127.0.0.1, so its name is not compared.
func trustOf(secret *corev1.Secret) (*tls.Config, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(secret.Data[v1.CAKey]) {
		return nil, plainf("Secret %s/%s has no %s, so the server's certificate cannot be verified", secret.Namespace, secret.Name,
			v1.CAKey)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies the certificate, without its name.
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the server has no certificate")
			}
			options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
			for _, c := range state.PeerCertificates[1:] {
				options.Intermediates.AddCert(c)
			}
			_, err := state.PeerCertificates[0].Verify(options)
			return err
		},
	}, nil
}

// openSession logs in to the server at an address, with the account in the connection Secret.
func openSession(ctx context.Context, secret *corev1.Secret, address string, trusted *tls.Config) (*openedServer, error) {
	config := mysql.NewConfig()
	config.User, config.Passwd = string(secret.Data["username"]), string(secret.Data["password"])
	config.Net, config.Addr, config.TLS = "tcp", address, trusted
	config.MultiStatements, config.Logger, config.MaxAllowedPacket = true, &mysql.NopLogger{}, 0
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	server, err := undo.Open(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	source := binlog.Source{Address: address, TLS: trusted, User: config.User, Password: config.Passwd,
		ServerID: 1<<31 + rand.Uint32N(1<<30)} //nolint:gosec // It only has to differ from the ones of other clients.
	return &openedServer{
		Server: server,
		stream: func(ctx context.Context) (*binlog.Stream, error) { return binlog.Connect(ctx, source) },
		close: func() {
			_ = server.Close()
			_ = db.Close()
		},
	}, nil
}

// A temporary is the pair of temporary instances with the data directly before and after the transaction to undo.
type temporary struct {
	session       *session
	source        *instance.Composite
	id            binlog.GTID
	before, after string
	// limit is the time to wait for an instance.
	limit time.Duration
	// isCreated is true once an instance may exist.
	isCreated bool
}

func newTemporary(s *session, source *instance.Composite, id binlog.GTID, limit time.Duration) *temporary {
	return &temporary{session: s, source: source, id: id, limit: limit,
		before: temporaryName(source.GetName(), "before", id.String()),
		after:  temporaryName(source.GetName(), "after", id.String())}
}

// temporaryName returns the name of a temporary instance. It depends on the transaction, so that a second run finds it.
func temporaryName(name, state, id string) string {
	const most = 36
	if len(name) > most {
		name = strings.TrimRight(name[:most], "-.")
	}
	if id == "" {
		return name + "-" + state
	}
	sum := sha256.Sum256([]byte(id))
	return name + "-" + state + "-" + hex.EncodeToString(sum[:4])
}

// ownerLabel returns the label value that identifies the temporary instances of an instance. It is the name of the
// instance, shortened to the maximum length of a label value.
func (t *temporary) ownerLabel() string {
	const most = 63
	name := t.source.GetName()
	return strings.TrimRight(name[:min(len(name), most)], "-.")
}

// openBoth creates both instances, waits for them, and logs in.
func (t *temporary) openBoth(ctx context.Context) (before, after *openedServer, err error) {
	if err := t.createOne(ctx, t.before, v1.MomentBefore+t.id.String()); err != nil {
		return nil, nil, err
	}
	if err := t.createOne(ctx, t.after, t.id.String()); err != nil {
		return nil, nil, err
	}
	if before, err = t.openOne(ctx, t.before); err != nil {
		return nil, nil, err
	}
	if after, err = t.openOne(ctx, t.after); err != nil {
		before.close()
		return nil, nil, err
	}
	return before, after, nil
}

// newClaim returns a temporary instance. It takes no backups, and its scheduled events do not run.
func (t *temporary) newClaim(name, moment string) *unstructured.Unstructured {
	out := (&restoreCommand{From: t.source.GetName(), To: name, At: moment}).restored(t.source.Unstructured, t.session.namespace)
	out.SetLabels(map[string]string{v1.LabelUndo: t.ownerLabel()})
	spec, _, _ := unstructured.NestedMap(out.Object, "spec") // restored has set it.
	for _, field := range []string{"backup", "service", "metrics", "writeConnectionSecretToRef", "compositeDeletePolicy"} {
		delete(spec, field)
	}
	spec["deletionPolicy"] = string(v1.DeletionDiscard)
	config, _, _ := unstructured.NestedMap(spec, "config")
	if config == nil {
		config = map[string]any{}
	}
	maps.DeleteFunc(config, func(option string, _ any) bool {
		return strings.TrimPrefix(strings.ReplaceAll(strings.ToLower(option), "-", "_"), "loose_") == "event_scheduler"
	})
	config["event_scheduler"] = "OFF"
	spec["config"] = config
	out.Object["spec"] = spec
	return out
}

// createOne creates a temporary instance, unless it exists since an earlier run of the command.
func (t *temporary) createOne(ctx context.Context, name, moment string) error {
	s := t.session
	t.isCreated = true
	err := s.kube.Create(ctx, t.newClaim(name, moment), client.FieldValidation(metav1.FieldValidationStrict))
	if err == nil {
		s.sayf("Created the temporary %s %s/%s. It is deleted at the end.", s.kind.Kind, s.namespace, name)
		return nil
	}
	if !kerrors.IsAlreadyExists(err) {
		return s.explain(err, "")
	}
	found, err := s.get(ctx, s.kind, name)
	if err != nil {
		return err
	}
	previous, _, _ := unstructured.NestedString(found.Object, "spec", "restore", "at")
	switch {
	case found.GetLabels()[v1.LabelUndo] != t.ownerLabel() || previous != moment:
		return plainf("%s %q already exists, and was not created by this command for this transaction: rename or delete it",
			s.kind.Kind, name)
	case found.GetDeletionTimestamp() != nil:
		if err := t.awaitDeletion(ctx, found); err != nil {
			return err
		}
		return t.createOne(ctx, name, moment)
	}
	s.sayf("Using the temporary %s %s/%s of an earlier run.", s.kind.Kind, s.namespace, name)
	return nil
}

// awaitDeletion waits until an instance that is being deleted is gone.
func (t *temporary) awaitDeletion(ctx context.Context, deleted *unstructured.Unstructured) error {
	s := t.session
	s.sayf("Waiting until the temporary %s %s/%s of an earlier run is deleted.", s.kind.Kind, s.namespace, deleted.GetName())
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("the timeout of %s expired", t.limit))
	defer cancel()
	for {
		found, err := s.get(ctx, s.kind, deleted.GetName())
		switch {
		case kerrors.IsNotFound(err), err == nil && found.GetUID() != deleted.GetUID():
			return nil
		case err != nil && ctx.Err() == nil && !instance.IsPassing(err):
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stopped waiting (%w). The deletion continues: %s", context.Cause(ctx), s.statusOf(deleted.GetName()))
		case <-time.After(s.pause):
		}
	}
}

// archiveDelay is the time after which a transaction should be in the archive.
const archiveDelay = 3 * time.Minute

// openOne waits until a temporary instance accepts clients, and logs in.
func (t *temporary) openOne(ctx context.Context, name string) (*openedServer, error) {
	s := t.session
	begun := s.now()
	command := &restoreCommand{From: t.source.GetName(), To: name}
	made, err := s.await(ctx, name, t.limit, func(c *instance.Composite) (string, bool, error) {
		line, done, err := command.look(c)
		if err != nil && isNotArchived(err) && s.now().Sub(begun) < archiveDelay {
			return "Waiting until the transaction is archived", false, nil
		}
		if line != "" {
			line = name + ": " + line
		}
		return line, done, err
	})
	switch {
	case ctx.Err() != nil: // Ctrl-C.
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("the temporary instance %s cannot be used (see --timeout and --keep): %w", name, err)
	}
	return s.openServer(ctx, made)
}

// isNotArchived reports whether a recovery is refused because the archive does not contain the transaction yet.
func isNotArchived(err error) bool {
	return strings.Contains(err.Error(), "is not in the archived binary log")
}

// removeTime is the time for the deletion of the temporary instances. It continues after that.
const removeTime = 30 * time.Second

// removeBoth deletes the temporary instances, also after Ctrl-C.
func (t *temporary) removeBoth(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	var errs []error
	for _, name := range []string{t.before, t.after} {
		found, err := t.session.get(ctx, t.session.kind, name)
		if err == nil && found.GetLabels()[v1.LabelUndo] == t.ownerLabel() && found.GetDeletionTimestamp() == nil {
			uid := found.GetUID()
			err = t.session.kube.Delete(ctx, found, client.Preconditions{UID: &uid})
			if err == nil {
				t.session.sayf("Deleted the temporary %s %s/%s.", t.session.kind.Kind, t.session.namespace, name)
			}
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("cannot delete the temporary instance %s, delete it with kubectl: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
