package stores

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/certificate"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/ststest"
)

func TestOpen(t *testing.T) {
	id := newIdentity(t)
	for name, c := range map[string]struct {
		change func(*v1.BackupStore, *Secrets)
		says   string
	}{
		"Good":          {func(*v1.BackupStore, *Secrets) {}, ""},
		"NoCredentials": {func(_ *v1.BackupStore, s *Secrets) { s.Credentials = nil }, `no Secret "credentials"`},
		"Both": {func(b *v1.BackupStore, _ *Secrets) { b.Spec.WorkloadIdentity = &v1.WorkloadIdentity{} },
			"exactly one of credentialsSecretRef and workloadIdentity"},
		"Neither": {func(b *v1.BackupStore, s *Secrets) { b.Spec.CredentialsSecretRef, s.Credentials = nil, nil },
			"exactly one of credentialsSecretRef and workloadIdentity"},
		"NoKey": {func(_ *v1.BackupStore, s *Secrets) { s.Key = nil }, `no Secret "key"`},
		"NoAccessKey": {func(_ *v1.BackupStore, s *Secrets) { delete(s.Credentials.Data, v1.StoreAccessKey) },
			`"accessKey" of Secret "credentials"`},
		"EmptySecret": {func(_ *v1.BackupStore, s *Secrets) { s.Credentials.Data[v1.StoreSecretKey] = []byte(" \n") },
			`"secretKey" of Secret "credentials"`},
		"NoSealKey": {func(_ *v1.BackupStore, s *Secrets) { delete(s.Key.Data, v1.StoreSigningKey) },
			`"signingKey" of Secret "key"`},
		"ShortSealKey": {func(_ *v1.BackupStore, s *Secrets) { s.Key.Data[v1.StoreSigningKey] = []byte("AAAA") }, "32 bytes"},
		"Recipient":    {func(b *v1.BackupStore, _ *Secrets) { b.Spec.Recipients = []string{"age1nobody"} }, "recipients"},
		"Identity": {func(_ *v1.BackupStore, s *Secrets) {
			s.Key.Data[v1.StoreIdentity] = []byte("AGE-SECRET-KEY-1NONE")
		}, "is not an age identity"},
		"CA": {func(b *v1.BackupStore, _ *Secrets) { b.Spec.CABundle = "x" }, "CA bundle"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newBackupStore(id, id)
			c.change(b, &s)
			open, err := Open(b, s)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %v", c.says, err)
			}
			if err != nil && strings.Contains(err.Error(), "NONE") {
				t.Errorf("it says a part of an identity: %v", err)
			}
			if err == nil && (open.file.AccessKey != "a" || open.file.Identity == "" || len(open.recipients) != 1 ||
				len(open.identities) != 1) {
				t.Errorf("want all that it has, got %+v", open)
			}
		})
	}
}

// TestWorkloadIdentity checks that the gateway gets the settings of the identity, and no keys. Each process gets
// credentials for its own pod.
func TestWorkloadIdentity(t *testing.T) {
	b, secrets := newBackupStore(nil, nil)
	b.Spec.CredentialsSecretRef, secrets.Credentials = nil, nil
	b.Spec.WorkloadIdentity = &v1.WorkloadIdentity{RoleARN: "arn:aws:iam::123456789012:role/backups",
		STSEndpoint: "https://sts.test"}
	open, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	state := &GatewayState{Namespace: systemNamespace, Now: now}
	if state.Signer, err = NextSigner(state); err != nil {
		t.Fatal(err)
	}
	next, err := NextGateway(state, []*Store{open})
	if err != nil {
		t.Fatal(err)
	}
	want := `"offsite":{"endpoint":"https://s3.test","bucket":"backups","workloadIdentity":` +
		`{"roleARN":"arn:aws:iam::123456789012:role/backups","stsEndpoint":"https://sts.test"}}`
	if got := string(next.Data[StoresFile]); !strings.Contains(got, want) {
		t.Errorf("want %s, got %s", want, got)
	}
}

// TestStatusOfIdentity checks the condition of a BackupStore whose pod gets no credentials.
func TestStatusOfIdentity(t *testing.T) {
	token := ststest.SetPod(t, "arn:aws:iam::123456789012:role/backups")
	sts := ststest.New(t)
	sts.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		ststest.Refuse(w, http.StatusForbidden, "AccessDenied")
		return true
	}
	for name, says := range map[string]string{token: "its trust policy must allow sts:AssumeRoleWithWebIdentity",
		token + "-missing": "check the annotation of the service account", "": "annotate its service account"} {
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", name)
		b, secrets := newBackupStore(nil, nil)
		b.Spec.Region, b.Spec.CABundle, b.Spec.CredentialsSecretRef = "eu-central-1", sts.CA(), nil
		b.Spec.WorkloadIdentity = &v1.WorkloadIdentity{STSEndpoint: sts.URL()}
		open, err := Open(b, secrets)
		if err != nil {
			t.Fatal(err)
		}
		found, err := open.Look(t.Context())
		next, err := NextStatus(b, open, found, err, now)
		if err != nil {
			t.Fatal(err)
		}
		if c := next.Conditions[0]; c.Status != metav1.ConditionFalse || c.Reason != "NoCredentials" ||
			!strings.Contains(c.Message, says) {
			t.Errorf("%q: want %q, got %+v", name, says, c)
		}
	}
}

func TestNextStatus(t *testing.T) {
	good, bad := store.Finding{WritesOnce: true, Deletes: true}, errors.New("no \x1b[31mstore")
	for name, c := range map[string]struct {
		broken bool
		found  store.Finding
		err    error
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"Good": {found: good, status: metav1.ConditionTrue, reason: v1.ReasonProbed, says: "written, read and deleted"},
		"KeepsAll": {found: store.Finding{WritesOnce: true}, status: metav1.ConditionTrue, reason: v1.ReasonProbed,
			says: "may not delete it"},
		"WritesOver": {found: store.Finding{Deletes: true}, status: metav1.ConditionTrue, reason: v1.ReasonProbed,
			says: "no conditional writes"},
		"Settings": {broken: true, err: bad, status: metav1.ConditionFalse, reason: v1.ReasonSettings, says: "no "},
		"Down": {err: &store.Error{Kind: store.Unreachable, Err: bad}, status: metav1.ConditionFalse,
			reason: "Unreachable", says: "cannot be reached"},
		"Identity": {found: good, err: errIdentity, status: metav1.ConditionFalse, reason: "Failed", says: "but not " +
			"restored"},
	} {
		t.Run(name, func(t *testing.T) {
			b, s := newBackupStore(nil, nil)
			open, err := Open(b, s)
			if err != nil {
				t.Fatal(err)
			}
			if c.broken {
				open = nil
			}
			next, err := NextStatus(b, open, c.found, c.err, now)
			if err != nil {
				t.Fatal(err)
			}
			got := next.Conditions[0]
			if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.says) ||
				strings.Contains(got.Message, "\x1b") {
				t.Errorf("want %s, %s, %q, got %+v", c.status, c.reason, c.says, got)
			}
			b.Status = next
			if b.IsReachable() != (c.status == metav1.ConditionTrue) || (next.ProbeTime != nil) != (c.err == nil) {
				t.Errorf("got %t, %v", b.IsReachable(), next.ProbeTime)
			}
			b.Generation++
			if b.IsReachable() {
				t.Error("that was the store of an earlier spec")
			}
		})
	}
}

// TestChallenge checks the proof of possession for a cluster without the identity.
func TestChallenge(t *testing.T) {
	id, other := newIdentity(t), newIdentity(t)
	b, s := newBackupStore(id, nil)
	probe := func() bool {
		t.Helper()
		open, err := Open(b, s)
		if err != nil {
			t.Fatal(err)
		}
		if b.Status, err = NextStatus(b, open, store.Finding{WritesOnce: true, Deletes: true}, nil, now); err != nil {
			t.Fatal(err)
		}
		return b.IsReachable()
	}
	answer := func(identity age.Identity) string {
		t.Helper()
		r, err := age.Decrypt(armor.NewReader(strings.NewReader(b.Status.Challenge.Text)), identity)
		if err != nil {
			return ""
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if probe() {
		t.Fatal("nobody has shown anything")
	}
	first := b.Status.Challenge.Text
	if probe() || b.Status.Challenge.Text != first {
		t.Error("the question changes while somebody answers it")
	}
	if !strings.Contains(b.Status.Conditions[0].Message, "kubectl annotate backupstore offsite") || answer(other) != "" {
		t.Errorf("want how to answer, got %q", b.Status.Conditions[0].Message)
	}
	for wrong := range map[string]bool{"": true, "x": true, b.Status.Challenge.Answer: true,
		b.Status.Challenge.Text: true} {
		if b.Annotations = map[string]string{v1.AnnotationAnswer: wrong}; probe() {
			t.Errorf("%q is no answer", wrong)
		}
	}
	b.Annotations = map[string]string{v1.AnnotationAnswer: answer(id)}
	if !probe() {
		t.Fatal("that is the answer")
	}
	if b.Annotations = nil; !probe() {
		t.Error("it was answered before")
	}
	b.Spec.Recipients = []string{other.Recipient().String()}
	if probe() || b.Status.Challenge.Text == first {
		t.Error("other recipients are asked anew")
	}
	b.Spec.Recipients = nil
	if !probe() || b.Status.Challenge != nil {
		t.Error("nothing is encrypted, and nobody is asked")
	}
	b.Spec.Recipients = []string{id.Recipient().String()}
	s.Key.Data[v1.StoreIdentity] = []byte(id.String())
	if !probe() || b.Status.Challenge != nil {
		t.Error("the cluster has the identity, and sees for itself")
	}
}

func TestSecrets(t *testing.T) {
	id := newIdentity(t)
	b, secrets := newBackupStore(id, id)
	open, err := Open(b, secrets)
	if err != nil {
		t.Fatal(err)
	}
	state := &GatewayState{Namespace: systemNamespace, Now: now}
	if state.Signer, err = NextSigner(state); err != nil || state.Signer == nil {
		t.Fatalf("want a signer, got %v", err)
	}
	if second, err := NextSigner(state); err != nil || second != nil {
		t.Errorf("it is made once, got %v, %v", second, err)
	}
	next := func(reason string, want bool, stores ...*Store) *corev1.Secret {
		t.Helper()
		out, err := NextGateway(state, stores)
		if err != nil || (out != nil) != want {
			t.Fatalf("%s: want %t, got %v, %v", reason, want, out != nil, err)
		}
		if out != nil {
			state.Gateway = out
		}
		return out
	}
	first := next("nothing is there", true, open)
	if raw := string(first.Data[StoresFile]); !strings.Contains(raw, id.String()) ||
		!strings.Contains(raw, `"secretKey":"s"`) || strings.Contains(raw, string(secrets.Key.Data[v1.StoreSigningKey][:20])) {
		t.Errorf("want credentials and identity, and no seal, got %s", raw)
	}
	for _, v := range first.Data {
		if bytes.Contains(v, state.Signer.Data[signerKey]) || bytes.Contains(v, state.Signer.Data[caKeyKey]) {
			t.Error("the gateway is given what signs")
		}
	}
	next("all is as it was", false, open)
	shown := func() string { return string(state.Gateway.Data[corev1.TLSCertKey]) }
	before := shown()
	next("a store is gone", true)
	if shown() != before {
		t.Error("that is no reason for another certificate")
	}
	next("as before", false)
	state.Address = []byte{10, 0, 0, 7}
	next("its address is known", true)
	if shown() == before {
		t.Error("want a certificate for the address")
	}
	next("as before", false)
	state.Now = now.Add(certificate.Instance * 2 / 3).Add(2 * certificate.Slack)
	next("the certificate grows old", true)
	next("as before", false)
	for _, key := range []string{signerKey, caCertKey, caKeyKey} {
		broken := *state
		broken.Signer = state.Signer.DeepCopy()
		broken.Signer.Data[key] = []byte("x")
		if _, err := NextSigner(&broken); err == nil || !strings.Contains(err.Error(), "Delete it") {
			t.Errorf("%s: want what to do, got %v", key, err)
		}
	}
	state.Signer = nil
	if state.Signer, err = NextSigner(state); err != nil {
		t.Fatal(err)
	}
	next("there is another authority", true)
}
