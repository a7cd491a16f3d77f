package rotate

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/mysqld/sql"
)

// TestForeign checks that the controller does not change Secrets of other owners.
func TestForeign(t *testing.T) {
	earlier := testInstance()
	earlier.XR = "older"
	cases := map[string]struct {
		reason string
		labels map[string]string
		owners []metav1.OwnerReference
		state  string
		says   string
	}{
		"Stranger": {reason: "A user created the Secret, so the controller must not change it.",
			state: v1.CredentialsFailed, says: "does not belong to this MySQL"},
		"Earlier": {reason: "The Secret of the previous instance will be deleted by the garbage collector.", labels: earlier.Labels(),
			owners: []metav1.OwnerReference{{APIVersion: "a/v1", Kind: "X", Name: "x", UID: "older"}},
			state:  v1.CredentialsChanging, says: "previous MySQL with this name"},
		"Orphan": {reason: "The Secret of the previous instance has no owner, so a user must delete it.",
			labels: earlier.Labels(), state: v1.CredentialsFailed,
			says: "kubectl delete secret -n team shop-connection"},
	}
	for name, tc := range cases {
		for _, secret := range []string{testInstance().ConnectionSecretName(), testInstance().PendingSecretName()} {
			t.Run(name+" "+secret, func(t *testing.T) {
				theirs := &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: secret, Labels: tc.labels,
						OwnerReferences: tc.owners},
					Data: map[string][]byte{keyPassword: []byte("theirs")},
				}
				c := newCluster(t, "a", "", root("a"), theirs)
				got, err := c.rotator().Reconcile(t.Context(), c.input("b"))
				if err != nil || got.Credentials.State != tc.state ||
					!strings.Contains(got.Credentials.Message, strings.Replace(tc.says, "shop-connection", secret, 1)) {
					t.Errorf("%s got %+v, %v", tc.reason, got, err)
				}
				if len(c.effects) > 0 || passwordOf(c.secret(secret)) != "theirs" {
					t.Errorf("%s did %q", tc.reason, c.effects)
				}
			})
		}
	}
}

func TestConnectionSecret(t *testing.T) {
	for _, wanted := range []sql.Password{"plain", `'"\%_` + "`;--", "пароль🔑", "a b+c@d:e/f?g#h&i",
		sql.Password(strings.Repeat("x", 256))} {
		c := newCluster(t, wanted, "", root(wanted))
		in := c.input(wanted)
		in.Host, in.Database = "2001:db8::1", "имя-1"
		c.mustRest(c.rotator(), in)
		s := c.secret("shop-connection")
		want := map[string]string{"username": "root", "password": string(wanted), "host": "2001:db8::1", "port": "3306",
			"database": "имя-1", "endpoint": "2001:db8::1", "type": "mysql", "provider": "crossplane-mysql"}
		got := map[string]string{}
		for k, v := range s.Data {
			got[k] = string(v)
		}
		u, err := url.Parse(got["uri"])
		delete(got, "uri")
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v -want, +got:\n%s", err, diff)
		}
		p, _ := u.User.Password()
		if u.Scheme != "mysql" || u.User.Username() != "root" || p != string(wanted) || u.Hostname() != "2001:db8::1" ||
			u.Port() != "3306" || u.Path != "/имя-1" {
			t.Errorf("the URI says %v", u)
		}
		if s.Labels[v1.LabelXR] != testXR || s.Labels[v1.LabelInstance] != testInstance().Key() {
			t.Errorf("labels %v", s.Labels)
		}
		if o := s.OwnerReferences; len(o) != 1 || o[0].UID != testXR || o[0].Controller != nil {
			t.Errorf("owners %v", o)
		}
	}
}

// TestSecrecy checks that no password is printed, recorded, or stored outside of a Secret's data.
func TestSecrecy(t *testing.T) {
	const mark = "hunter2"
	for name, s := range stories() {
		for n := range 12 {
			c := newCluster(t, mark+s.primary, s.retained, root(mark+s.root))
			c.failAt, c.after = n, n%2 == 0
			output := strings.Builder{}
			s.tell(c, func(in Input) {
				in.Wanted = mark + in.Wanted
				for range 8 {
					got, err := c.rotator().Reconcile(t.Context(), in)
					raw, jerr := json.Marshal(got) //nolint:musttag // The output is only searched.
					_, _ = fmt.Fprintf(&output, "%v %+v %#v %s %v %+v %#v %v", got, got, got, raw, err, in, in, jerr)
					for _, secret := range []string{"shop-connection", testInstance().PendingSecretName()} {
						if s := c.secret(secret); s != nil {
							_, _ = fmt.Fprintf(&output, "%v", s.ObjectMeta)
						}
					}
					c.clock = c.clock.Add(time.Minute)
				}
			})
			_, _ = fmt.Fprintf(&output, "%v %+v %#v", rotationState{Wanted: mark}, rotationStep{Password: mark},
				rotationState{Pending: mark})
			if strings.Contains(output.String(), mark) {
				t.Errorf("%s, failure at %d: a password was said", name, n)
			}
		}
	}
}
