package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/ststest"
)

const role = "arn:aws:iam::123456789012:role/backups"

// newCredentials returns credentials that no other test shares, and their provider.
func newCredentials(t *testing.T, i Identity, ca string) (*credentials.Credentials, *provider) {
	t.Helper()
	p, err := newProvider(newSource(i, "eu-central-1", ca))
	if err != nil {
		t.Fatal(err)
	}
	return credentials.New(p), p
}

// TestHostileTokenService checks that each failure of the token service has an error with a next step. A request to the
// store must never be anonymous.
func TestHostileTokenService(t *testing.T) {
	refuse := func(status int, code string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			ststest.Refuse(w, status, code)
			return true
		}
	}
	raw := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
			return true
		}
	}
	endless := func(status int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			for {
				if _, err := w.Write([]byte(strings.Repeat("<a>", 1<<10))); err != nil {
					return true
				}
			}
		}
	}
	var redirected atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { redirected.Store(true) }))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		answer    func(http.ResponseWriter, *http.Request) bool
		change    func(*ststest.Server)
		says      string
		temporary bool
	}{
		"Denied":      {answer: refuse(http.StatusForbidden, "AccessDenied"), says: "its trust policy must allow"},
		"NoProvider":  {answer: refuse(http.StatusBadRequest, "InvalidIdentityToken"), says: "create an OIDC provider"},
		"OldToken":    {answer: refuse(http.StatusBadRequest, "ExpiredTokenException"), says: "has expired: check the clock"},
		"NoRegion":    {answer: refuse(http.StatusForbidden, "RegionDisabledException"), says: "is not activated"},
		"NewCode":     {answer: refuse(http.StatusBadRequest, "NeverSeen"), says: "NeverSeen"},
		"Throttled":   {answer: refuse(http.StatusBadRequest, "Throttling"), says: "is retried", temporary: true},
		"Down":        {answer: raw(http.StatusServiceUnavailable, "<html>"), says: "is retried", temporary: true},
		"NoXML":       {answer: raw(http.StatusOK, "{}"), says: "is retried", temporary: true},
		"OtherXML":    {answer: raw(http.StatusOK, "<html></html>"), says: "is retried", temporary: true},
		"HalfXML":     {answer: raw(http.StatusOK, "<AssumeRoleWithWeb"), says: "is retried", temporary: true},
		"Endless":     {answer: endless(http.StatusOK), says: "is retried", temporary: true},
		"EndlessCode": {answer: endless(http.StatusForbidden), says: "refuses the request"},
		"Closed": {answer: func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) },
			says: "does not respond", temporary: true},
		"Elsewhere": {answer: func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return true
		}, says: "refuses the request"},
		"NoKeys":    {change: func(s *ststest.Server) { s.AccessKey = "" }, says: "no credentials", temporary: true},
		"NoSession": {change: func(s *ststest.Server) { s.SessionToken = "" }, says: "no credentials", temporary: true},
		"Expired":   {change: func(s *ststest.Server) { s.Instance = -time.Hour }, says: "have expired: check the clock"},
	} {
		t.Run(name, func(t *testing.T) {
			ststest.SetPod(t, role)
			s := ststest.New(t)
			s.Answer = c.answer
			if c.change != nil {
				c.change(s)
			}
			got, _ := newCredentials(t, Identity{STSEndpoint: s.URL()}, s.CA())
			start := time.Now()
			v, err := got.GetWithContext(nil)
			if took := time.Since(start); took > timeout/2 {
				t.Errorf("it took %s", took)
			}
			e := new(Error)
			if !errors.As(err, &e) || e.IsTemporary != c.temporary || !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %+v, %v", c.says, e, err)
			}
			if v.AccessKeyID != "" || len(err.Error()) > 1000 {
				t.Errorf("want no credentials and a short message, got %q, %v", v.AccessKeyID, err)
			}
			if _, repeated := got.GetWithContext(nil); repeated == nil || len(s.Seen()) != 1 {
				t.Errorf("want that it is not asked again at once, got %v, %q", repeated, s.Seen())
			}
		})
	}
	if redirected.Load() {
		t.Error("the token was sent elsewhere")
	}
}

// TestSlowTokenService checks that a token service that does not respond does not block a request forever.
func TestSlowTokenService(t *testing.T) {
	ststest.SetPod(t, role)
	s := ststest.New(t)
	s.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		<-r.Context().Done()
		return true
	}
	got, p := newCredentials(t, Identity{STSEndpoint: s.URL()}, s.CA())
	p.sts.Timeout = 50 * time.Millisecond
	e := new(Error)
	if _, err := got.GetWithContext(nil); !errors.As(err, &e) || !e.IsTemporary || !strings.Contains(err.Error(), s.URL()) {
		t.Errorf("want that %s does not respond, got %v", s.URL(), err)
	}
}

// TestRenewal checks that credentials are renewed before they expire, with the token that is then in the file. If the
// token service fails, they are used until shortly before they expire.
func TestRenewal(t *testing.T) {
	token := ststest.SetPod(t, role)
	s := ststest.New(t)
	got, p := newCredentials(t, Identity{STSEndpoint: s.URL()}, s.CA())
	start := time.Now()
	after := func(d time.Duration, want string, requests int) {
		t.Helper()
		p.now = func() time.Time { return start.Add(d) }
		v, err := got.GetWithContext(nil)
		if err != nil {
			v.SessionToken = "none"
		}
		if v.SessionToken != want || len(s.Seen()) != requests {
			t.Errorf("after %s: want %s and %d requests, got %s, %v, %q", d, want, requests, v.SessionToken, err, s.Seen())
		}
	}
	after(0, "session", 1)
	ststest.WriteToken(t, token, "second")
	s.SessionToken = "session-2"
	after(44*time.Minute, "session", 1)
	s.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
		ststest.Refuse(w, http.StatusServiceUnavailable, "")
		return true
	}
	after(46*time.Minute, "session", 2)
	after(46*time.Minute+time.Second, "session", 2)
	after(47*time.Minute, "session", 3)
	after(59*time.Minute+30*time.Second, "none", 4)
	after(59*time.Minute+31*time.Second, "none", 4)
	s.Answer = nil
	s.Instance = 2 * time.Hour
	after(61*time.Minute, "session-2", 5)
	if want := []string{role + " first", role + " second"}; s.Seen()[0] != want[0] || s.Seen()[4] != want[1] {
		t.Errorf("want %q first and last, got %q", want, s.Seen())
	}
}

// TestEndlessInstance checks that credentials with an extremely long lifetime are renewed, but not for each request.
func TestEndlessInstance(t *testing.T) {
	ststest.SetPod(t, role)
	s := ststest.New(t)
	s.Instance = 1 << 62
	got, p := newCredentials(t, Identity{STSEndpoint: s.URL()}, s.CA())
	for range 3 {
		if _, err := got.GetWithContext(nil); err != nil {
			t.Error(err)
		}
	}
	if renew := time.Until(p.renewAt); len(s.Seen()) != 1 || renew > maxLifetime {
		t.Errorf("want one request and a renewal within %s, got %q, %s", maxLifetime, s.Seen(), renew)
	}
}

// TestPods checks the role and the source of credentials for different environments of a pod. If there are none, the
// error must contain a next step.
func TestPods(t *testing.T) {
	s := ststest.New(t)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "first" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"AccessKeyId": "ASIAAGENT", "SecretAccessKey": "s", "Token": "agent",
			"Expiration": time.Now().Add(time.Hour)})
	}))
	defer agent.Close()
	for name, c := range map[string]struct {
		env  map[string]string // TOKEN is replaced with the path of the token.
		i    Identity
		want string
		seen string
	}{
		"Role": {env: map[string]string{"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"}, want: "session",
			seen: role},
		"OtherRole": {env: map[string]string{"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"},
			i: Identity{RoleARN: role + "-2"}, want: "session", seen: role + "-2"},
		"NoRole": {env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "TOKEN"}, want: "session", seen: ""},
		"NoFile": {env: map[string]string{"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere"},
			want: "has no token of its service account"},
		"Nothing": {want: "annotate its service account with the role"},
		"Agent": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.URL + "/v1/credentials",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "TOKEN"}, want: "agent"},
		"AgentNoFile": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.URL},
			want: "has no token of its service account"},
		"AgentRole": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": agent.URL,
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "TOKEN"}, i: Identity{RoleARN: role}, want: "remove roleARN"},
		"AgentElsewhere": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://192.0.2.1/",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "TOKEN"}, want: "must be a URL of the EKS Pod Identity Agent"},
		"Metadata": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.169.254/latest",
			"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "TOKEN"}, want: "must be a URL of the EKS Pod Identity Agent"},
	} {
		t.Run(name, func(t *testing.T) {
			token := ststest.SetPod(t, "")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "")
			for key, value := range c.env {
				t.Setenv(key, strings.ReplaceAll(value, "TOKEN", token))
			}
			c.i.STSEndpoint = s.URL()
			got, _ := newCredentials(t, c.i, s.CA())
			v, err := got.GetWithContext(nil)
			if text := fmt.Sprint(v.SessionToken, err); !strings.Contains(text, c.want) {
				t.Errorf("want %q, got %s", c.want, text)
			}
			if seen := s.Seen(); v.SessionToken == "session" && seen[len(seen)-1] != c.seen+" first" {
				t.Errorf("want the role %q, got %q", c.seen, seen)
			}
		})
	}
}

// TestServerOfRegion checks the URL of the token service for a region.
func TestServerOfRegion(t *testing.T) {
	for name, c := range map[string]struct {
		source source
		want   string
	}{
		"Bucket":   {source{bucketRegion: "eu-central-1"}, "https://sts.eu-central-1.amazonaws.com"},
		"Cluster":  {source{region: "eu-west-1", bucketRegion: "eu-central-1"}, "https://sts.eu-west-1.amazonaws.com"},
		"China":    {source{bucketRegion: "cn-north-1"}, "https://sts.cn-north-1.amazonaws.com.cn"},
		"Gov":      {source{bucketRegion: "us-gov-west-1"}, "https://sts.us-gov-west-1.amazonaws.com"},
		"Endpoint": {source{region: "eu-west-1", stsServer: "https://sts.test"}, "https://sts.test"},
		"HTTP":     {source{stsServer: "http://sts.test"}, "must begin with https://"},
		"NoRegion": {source{bucketRegion: "auto"}, "set region or workloadIdentity.stsEndpoint"},
		"Attack":   {source{bucketRegion: "x.test/eu-west-1"}, "set region or workloadIdentity.stsEndpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.source.stsURL()
			if text := fmt.Sprint(got, err); got != c.want && (err == nil || !strings.Contains(text, c.want)) {
				t.Errorf("want %s, got %s", c.want, text)
			}
		})
	}
}

// TestNoMetadataService checks that nothing connects to the instance metadata service, whatever the environment is. The
// HTTP client of the standard library, which the code of minio-go uses by default, must not be used at all.
func TestNoMetadataService(t *testing.T) {
	for _, address := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "[fd00:ec2::254]:80"} {
		if err := checkAddress(address); !errors.Is(err, errMetadata) {
			t.Errorf("%s: got %v", address, err)
		}
	}
	for _, address := range []string{"169.254.170.23:80", "[fd00:ec2::23]:80", "192.0.2.1:443"} {
		if err := checkAddress(address); err != nil {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if _, err := Dialer(time.Second).DialContext(t.Context(), "tcp", "169.254.169.254:80"); !errors.Is(err, errMetadata) {
		t.Errorf("want that it is not dialed, got %v", err)
	}
	previous := http.DefaultTransport
	http.DefaultTransport = roundTrip(func(r *http.Request) (*http.Response, error) {
		t.Errorf("the default client sends a request to %s", r.URL)
		return nil, syscall.ECONNREFUSED
	})
	defer func() { http.DefaultTransport = previous }()
	for name, env := range map[string]map[string]string{
		"Nothing":  {},
		"Relative": {"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials"},
		"Region":   {"AWS_REGION": "eu-central-1", "AWS_EC2_METADATA_DISABLED": "false"},
		"Static":   {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s"},
		"NoFile":   {"AWS_ROLE_ARN": role, "AWS_WEB_IDENTITY_TOKEN_FILE": "/nowhere"},
		"FullURI":  {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.169.254/"},
		"TLS":      {"AWS_CONTAINER_CREDENTIALS_FULL_URI": "https://169.254.169.254/"},
	} {
		t.Run(name, func(t *testing.T) {
			token := ststest.SetPod(t, "")
			t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "")
			t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token)
			for key, value := range env {
				t.Setenv(key, value)
			}
			got, p := newCredentials(t, Identity{}, "")
			p.sts.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				t.Errorf("a request goes to %s", r.URL)
				return nil, syscall.ECONNREFUSED
			})
			if _, err := got.GetWithContext(nil); err == nil {
				t.Error("want an error")
			} else if name == "TLS" && !errors.Is(err, errMetadata) {
				t.Errorf("want that it is not dialed, got %v", err)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
