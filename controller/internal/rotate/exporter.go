package rotate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	kerrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/secrets"
)

// keyDigest is the key of the digest in the Secret of the exporter. The digest identifies the account on the server and
// its password. If it does not match, the account was changed, for example because the data was restored from the
// backup of another instance. The container does not get this key.
const keyDigest = "note"

// An exporterSession is a session that maintains the account of the exporter.
type exporterSession interface {
	FindExporter(ctx context.Context) (string, error)
	CreateExporter(ctx context.Context, p sql.Password) error
	DropExporter(ctx context.Context) error
	NewExporterPassword(ctx context.Context) (sql.Password, error)
}

// An exporterState contains everything that determines the next step for the account of the exporter.
type exporterState struct {
	// Enabled is true if the instance has metrics.
	Enabled bool
	// HasSecret is true if the Secret exists. IsComplete is true if it also contains the my.cnf for the exporter.
	HasSecret, IsComplete bool
	// HasAccount is true if the server has the account. IsNoted is true if the digest in the Secret shows that the
	// account has the password in the Secret.
	HasAccount, IsNoted bool
}

// An exporterAction is one step for the account of the exporter.
type exporterAction string

// These are the possible actions. Each can be interrupted at any point and repeated. The password is stored before it
// is set, and the account is deleted before its password.
const (
	exporterNoOp exporterAction = "NoOp"
	// exporterStore stores a new password of the exporter in its Secret.
	exporterStore exporterAction = "Store"
	// exporterCreate creates the account with the password in the Secret, and then stores the digest of the account
	// there.
	exporterCreate exporterAction = "Create"
	// exporterDrop deletes the account of the exporter on the server.
	exporterDrop exporterAction = "Drop"
	// exporterForget deletes the Secret of the exporter.
	exporterForget exporterAction = "Forget"
)

// decideExporter returns the next step for the account of the exporter.
func decideExporter(s exporterState) exporterAction {
	switch {
	case !s.Enabled && s.HasAccount:
		return exporterDrop
	case !s.Enabled && s.HasSecret:
		return exporterForget
	case !s.Enabled:
		return exporterNoOp
	case !s.IsComplete:
		return exporterStore
	case !s.HasAccount || !s.IsNoted:
		return exporterCreate
	}
	return exporterNoOp
}

// maxExporterSteps is the maximum number of steps of a pass. Each password that the server's rules refuse takes one
// step.
const maxExporterSteps = 8

// keepExporter performs all steps for the account of the exporter. Its errors do not affect the password of root.
func (p *pass) keepExporter(ctx context.Context) {
	if !p.isExporterRead() {
		return
	}
	err := p.takeExporterSteps(ctx)
	_, foreign := errors.AsType[*secrets.ForeignError](err)
	switch {
	case err == nil:
		return
	case foreign && !p.in.Metrics: // The Secret of a user may have this name.
		return
	case sql.IsUnreachable(err), sql.IsBusy(err), kerrors.IsConflict(err), kerrors.IsAlreadyExists(err):
		p.result.ExporterRetry = pauseUnreachable
	default:
		p.result.ExporterRetry = pauseBlocked
		p.result.ExporterFailure = "The account for metrics is not up to date: " + err.Error()
	}
	log.FromContext(ctx).V(1).Info("Could not maintain the account of the exporter", "error", err)
}

// isExporterRead reports whether the pass reads the account of the exporter. If metrics are disabled, the account is
// read only while the password is verified. This is enough, because the server restarts when metrics are disabled, and
// the password is verified after each restart.
func (p *pass) isExporterRead() bool { return p.in.Metrics || p.in.VerifyPassword }

// prepareExporter stores the first password of the exporter before the pass logs in to the server. The pod that starts
// with the exporter then finds the Secret in most cases.
func (p *pass) prepareExporter(ctx context.Context) {
	if p.in.Metrics && p.exporterErr == nil && p.kept.exporter == nil {
		_ = p.storeExporter(ctx, sql.NewPassword()) // keepExporter reports an error.
	}
}

// readExporter reads the Secret of the exporter. keepExporter reports an error.
func (p *pass) readExporter(ctx context.Context) {
	if p.isExporterRead() {
		p.kept.exporter, p.exporterErr = secrets.Own(ctx, p.Kube, p.in.Instance, p.in.Instance.MetricsSecretName())
	}
}

// isExporterQuiet reports whether the Secret of the exporter needs no change, as far as this is known without a login.
func (p *pass) isExporterQuiet() bool {
	return !p.in.Metrics || p.kept.exporter != nil && len(p.kept.exporter.Data[keyDigest]) > 0
}

func (p *pass) takeExporterSteps(ctx context.Context) error {
	var refused error
	for range maxExporterSteps {
		if p.readExporter(ctx); p.exporterErr != nil {
			return p.exporterErr
		}
		found, err := p.session.FindExporter(ctx)
		if err != nil {
			return err
		}
		s := p.kept.exporter
		action := decideExporter(exporterState{
			Enabled: p.in.Metrics, HasSecret: s != nil, IsComplete: isExporterComplete(s),
			HasAccount: found != "", IsNoted: s != nil && string(s.Data[keyDigest]) == exporterDigest(found, passwordOf(s)),
		})
		if action == exporterNoOp {
			return nil
		}
		start := time.Now()
		err = p.performExporterStep(ctx, action)
		log.FromContext(ctx).V(1).Info("Performed a step of the exporter's account", "action", action,
			"took", time.Since(start), "error", err)
		if sql.IsAgainstPolicy(err) { // The next step sets another password.
			refused, err = err, p.replaceExporterPassword(ctx)
		}
		if err != nil {
			return err
		}
	}
	if refused != nil {
		return refused
	}
	return errors.New("another client changes it as well")
}

func (p *pass) performExporterStep(ctx context.Context, action exporterAction) error {
	switch action {
	case exporterStore:
		return p.storeExporter(ctx, sql.NewPassword())
	case exporterCreate:
		return p.createExporter(ctx)
	case exporterDrop:
		return p.session.DropExporter(ctx)
	case exporterForget:
		return deleteSecret(ctx, p.Kube, p.kept.exporter)
	case exporterNoOp:
	}
	return nil
}

// createExporter creates the account, and then stores its digest in the Secret. After a crash in between, the account
// is created again.
func (p *pass) createExporter(ctx context.Context) error {
	password := passwordOf(p.kept.exporter)
	if err := p.session.CreateExporter(ctx, password); err != nil {
		return err
	}
	found, err := p.session.FindExporter(ctx)
	if err != nil {
		return err
	}
	s := p.kept.exporter.DeepCopy()
	s.Data[keyDigest] = []byte(exporterDigest(found, password))
	return p.updateSecret(ctx, s)
}

// replaceExporterPassword stores a password that follows the server's rules.
func (p *pass) replaceExporterPassword(ctx context.Context) error {
	password, err := p.session.NewExporterPassword(ctx)
	if err != nil {
		return err
	}
	return p.storeExporter(ctx, password)
}

// storeExporter writes a password to the Secret of the exporter.
func (p *pass) storeExporter(ctx context.Context, password sql.Password) error {
	s := &corev1.Secret{ObjectMeta: p.in.secretMeta(p.in.Instance.MetricsSecretName()), Type: corev1.SecretTypeOpaque}
	if old := p.kept.exporter; old != nil {
		s = old.DeepCopy()
	}
	s.Data = exporterData(password)
	if p.kept.exporter != nil {
		return p.updateSecret(ctx, s)
	}
	if err := p.Kube.Create(ctx, s); err != nil {
		return secrets.Failed(err, "create", s.Namespace, s.Name)
	}
	return nil
}

// exporterData returns the content of the Secret. The password has no character with a meaning in an option file.
func exporterData(password sql.Password) map[string][]byte {
	return map[string][]byte{
		keyUsername: []byte(sql.ExporterAccount), keyPassword: []byte(password),
		v1.MetricsKey: fmt.Appendf(nil, "[client]\nuser = %s\npassword = %s\nsocket = %s\n", sql.ExporterAccount,
			string(password), agent.SocketFile),
	}
}

// isExporterComplete reports whether a Secret has the content that exporterData returns for its password.
func isExporterComplete(s *corev1.Secret) bool {
	if s == nil || passwordOf(s) == "" {
		return false
	}
	data := maps.Clone(s.Data)
	delete(data, keyDigest)
	return maps.EqualFunc(data, exporterData(passwordOf(s)), func(a, b []byte) bool { return string(a) == string(b) })
}

// exporterDigest returns the digest of an account and its password, which the controller stores in the Secret.
func exporterDigest(found string, password sql.Password) string {
	sum := sha256.Sum256([]byte(found + "\n" + string(password)))
	return hex.EncodeToString(sum[:])
}
