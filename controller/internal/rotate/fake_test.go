package rotate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/version"
)

var (
	errBoom   = errors.New("boom")
	errDenied = &sql.Error{Doing: "log in to the server", Number: 1045, State: "28000",
		Text: "Access denied for user 'root'@'10.0.0.1' (using password: YES)"}
	errGone = fmt.Errorf("cannot change the password of root: %w", context.DeadlineExceeded)
)

// An account is a root account of the fake server.
type account struct {
	sql.Account

	primary, retained sql.Password
}

// A cluster is a fake server that handles passwords as MySQL does, and an API server with Secrets. Both record each
// write, and can fail before or after it.
type cluster struct {
	client.Client

	t         *testing.T
	accounts  []*account
	databases []string
	version   string
	down      error
	clock     time.Time
	logins    int
	// refusals is the number of logins that failed because of the password.
	refusals int
	locked   bool
	effects  []string
	// loaded is the certificate that the server presents. mounted is the certificate in its pod. reload is the error
	// of a reload.
	loaded, mounted *x509.Certificate
	reload          error
	reloads         int
	// cloners are the accounts that may clone the server, with their passwords. noDonor is the error if the server
	// cannot be cloned.
	cloners map[string]sql.Password
	noDonor error
	// exporter is the password of the exporter's account, or "". exporterAge changes when the account is created.
	// shortest is the minimum length of its password.
	exporter    sql.Password
	exporterAge int
	shortest    int
	// outside is the data that the server stores outside of its data directory.
	outside []sql.Outside
	// failAt is the number of the write (effect) that fails, starting at 1. If after is true, that write is performed
	// before it fails.
	failAt int
	after  bool
	// check is called after each effect.
	check func()
}

const (
	testNamespace = "team"
	testName      = "shop"
	testXR        = "1b2c"
	// testForeign is a password that another client has set.
	testForeign = "theirs"
)

func testInstance() v1.Instance {
	return v1.Instance{Kind: v1.KindMySQL, Namespace: testNamespace, Name: testName, XR: testXR}
}

func newCluster(t *testing.T, primary, retained sql.Password, secrets ...client.Object) *cluster {
	t.Helper()
	c := &cluster{t: t, version: "8.4.6", databases: []string{"app"}, clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		check: func() {}}
	for _, host := range []string{"%", "localhost"} {
		c.accounts = append(c.accounts, &account{
			Account: sql.Account{Host: host, Plugin: "caching_sha2_password", Loaded: true, Empty: primary == ""},
			primary: primary, retained: retained,
		})
	}
	c.Client = fake.NewClientBuilder().WithObjects(secrets...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return c.effect("create "+o.GetName(), func() error { return k.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return c.effect("update "+o.GetName(), func() error { return k.Update(ctx, o, opts...) })
		},
		Delete: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return c.effect("delete "+o.GetName(), func() error { return k.Delete(ctx, o, opts...) })
		},
	}).Build()
	return c
}

// effect performs and records a write to the server or to a Secret. It returns an error at the write that failAt
// selects.
func (c *cluster) effect(name string, run func() error) error {
	c.effects = append(c.effects, name)
	fails := len(c.effects) == c.failAt
	if fails && !c.after {
		return errBoom
	}
	if err := run(); err != nil {
		return err
	}
	c.check()
	if fails {
		return errBoom
	}
	return nil
}

func (c *cluster) rotator() *Rotator {
	return &Rotator{Kube: c, Now: func() time.Time { return c.clock }, Grace: time.Minute, Settle: 5 * time.Second,
		login: c.login}
}

func (c *cluster) input(wanted sql.Password) Input {
	return Input{
		Instance: testInstance(), Wanted: wanted, Database: "app", Host: "shop.team.svc", Port: 3306,
		Owner: metav1.OwnerReference{APIVersion: "otus.homework/v1", Kind: "XMySQL", Name: "shop-x", UID: testXR,
			Controller: new(true)},
	}
}

func (c *cluster) secret(name string) *corev1.Secret {
	c.t.Helper()
	s := &corev1.Secret{}
	if err := c.Get(c.t.Context(), types.NamespacedName{Namespace: testNamespace, Name: name},
		s); client.IgnoreNotFound(err) != nil {
		c.t.Fatal(err)
	}
	if s.Name == "" {
		return nil
	}
	return s
}

func (c *cluster) connection() sql.Password {
	c.t.Helper()
	return passwordOf(c.secret(testInstance().ConnectionSecretName()))
}

func (c *cluster) accepts(p sql.Password) bool {
	return c.down == nil && slices.ContainsFunc(c.accounts, func(a *account) bool {
		return a.Host == "%" && (a.primary == p || a.retained == p && a.retained != "")
	})
}

func (c *cluster) login(_ context.Context, _ sql.Server, p sql.Password) (session, error) {
	c.logins++
	if c.down != nil {
		return nil, c.down
	}
	if !c.accepts(p) {
		c.refusals++
		return nil, errDenied
	}
	return &fakeSession{cluster: c, shown: c.loaded}, nil
}

type fakeSession struct {
	*cluster

	holds bool
	shown *x509.Certificate
}

func (s *fakeSession) Certificate() *x509.Certificate { return s.shown }

func (s *fakeSession) ReloadTLS(context.Context) error {
	s.reloads++
	if s.reload == nil {
		s.loaded = s.mounted
	}
	return s.reload
}

func (s *fakeSession) Lock(context.Context) error {
	if s.locked {
		return sql.ErrLocked
	}
	s.locked, s.holds = true, true
	return nil
}

func (s *fakeSession) Close() {
	if s.holds {
		s.locked = false
	}
}

func (s *fakeSession) Version(context.Context) (string, version.Version, error) {
	v, err := version.Parse(s.version)
	return s.version, v, err
}

func (s *fakeSession) RootAccounts(context.Context) ([]sql.Account, error) {
	out := make([]sql.Account, 0, len(s.accounts))
	for _, a := range s.accounts {
		a.Retained, a.Empty = a.retained != "", a.primary == ""
		out = append(out, a.Account)
	}
	return out, s.down
}

func (s *fakeSession) SetPassword(_ context.Context, accounts []sql.Account, p sql.Password, retain bool) error {
	if retain && slices.ContainsFunc(accounts, func(a sql.Account) bool { return a.Retained }) {
		return sql.ErrRetained
	}
	return s.effect(fmt.Sprintf("set, retain %v", retain), func() error {
		for _, a := range s.accounts {
			if retain {
				a.retained = a.primary
			}
			a.primary = p
		}
		return nil
	})
}

func (s *fakeSession) DiscardOld(context.Context, []sql.Account) error {
	return s.effect("discard", func() error {
		for _, a := range s.accounts {
			a.retained = ""
		}
		return nil
	})
}

func (s *fakeSession) EnsureDatabase(_ context.Context, name string) error {
	if slices.Contains(s.databases, name) {
		return nil
	}
	return s.effect("database", func() error { s.databases = append(s.databases, name); return nil })
}

func (s *fakeSession) OfferClone(_ context.Context, account string) (sql.Password, sql.Layout, error) {
	if s.noDonor != nil {
		return "", sql.Layout{}, s.noDonor
	}
	p := sql.NewPassword()
	err := s.effect("offer", func() error { s.cloners = map[string]sql.Password{account: p}; return nil })
	return p, sql.Layout{PageSize: 8192, LowerCase: 1}, err
}

func (s *fakeSession) FindExporter(context.Context) (string, error) {
	if s.exporter == "" {
		return "", s.down
	}
	return fmt.Sprintf("digest %d of %s", s.exporterAge, string(s.exporter)), s.down
}

func (s *fakeSession) CreateExporter(_ context.Context, p sql.Password) error {
	if len(p) < s.shortest {
		return &sql.Error{Doing: "create the account of the exporter", Number: 1819, State: "HY000"}
	}
	return s.effect("create exporter", func() error {
		s.exporter = p
		s.exporterAge++
		return nil
	})
}

func (s *fakeSession) DropExporter(context.Context) error {
	return s.effect("drop exporter", func() error { s.exporter = ""; return nil })
}

func (s *fakeSession) NewExporterPassword(context.Context) (sql.Password, error) {
	return sql.Password(strings.Repeat("x", s.shortest)), nil
}

func (s *fakeSession) OutsideData(context.Context) ([]sql.Outside, error) {
	return s.outside, s.down
}

func (*fakeSession) SetCommitWait(context.Context, bool) (bool, error) { return true, nil }

func (s *fakeSession) OfferArchive(context.Context) (sql.Password, error) {
	return sql.NewPassword(), nil
}

func (s *fakeSession) WithdrawClone(_ context.Context, account string) error {
	return s.effect("withdraw", func() error { delete(s.cloners, account); return nil })
}

// root returns the Secret with the password from the server's first start.
func root(p sql.Password) *corev1.Secret {
	i := testInstance()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: i.RootSecretName(), Labels: i.Labels()},
		Data:       map[string][]byte{v1.PasswordKey: []byte(p)},
	}
}
