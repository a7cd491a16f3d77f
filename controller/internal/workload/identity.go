package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

const (
	// timeout is the timeout of a request for credentials. Requests to the store wait until it is complete.
	timeout = 15 * time.Second
	// minLifetime is the minimum remaining lifetime of credentials. Credentials with a shorter lifetime are not used.
	minLifetime = time.Minute
	// maxLifetime is the maximum lifetime of credentials from AWS. Credentials with a longer lifetime are renewed after
	// this time.
	maxLifetime = 12 * time.Hour
	// pause is the time between two attempts after a failure. Without a pause, each request to the store would send its
	// own request for credentials and wait for its timeout.
	pause = 5 * time.Second
	// maxAnswer is the maximum size in bytes of a response.
	maxAnswer = 64 << 10
)

// An Identity specifies the role and the token service with which a pod gets credentials for a store.
type Identity struct {
	// RoleARN is the role to assume. If it is empty, the role in AWS_ROLE_ARN is assumed.
	RoleARN string `json:"roleARN,omitempty"`
	// STSEndpoint is the URL of the token service. If it is empty, the token service of the AWS region is used.
	STSEndpoint string `json:"stsEndpoint,omitempty"`
}

// A source contains where the pod's token is stored, and which service exchanges it for credentials. Kubernetes sets
// the environment variables when it creates the pod, so they never change.
type source struct {
	role, tokenFile          string // AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE
	agentURL, agentTokenFile string // AWS_CONTAINER_CREDENTIALS_FULL_URI, AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
	region, bucketRegion     string // AWS_REGION
	identityRole, stsServer  string // of the Identity
	ca                       string
}

// newSource returns the source in the environment of this process.
func newSource(i Identity, region, ca string) source {
	return source{
		role: os.Getenv("AWS_ROLE_ARN"), tokenFile: os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE"),
		agentURL:       os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
		agentTokenFile: os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
		region:         os.Getenv("AWS_REGION"), bucketRegion: region, identityRole: i.RoleARN, stsServer: i.STSEndpoint, ca: ca,
	}
}

// Credentials returns the credentials for an Identity. It sends no request. region is the region of the bucket, and ca
// are the certificate authorities of the token service as PEM. If it is "", the certificate authorities of the system
// are used.
//
// All callers with the same arguments share the credentials, because a BackupStore is opened for each operation.
func Credentials(i Identity, region, ca string) (*credentials.Credentials, error) {
	s := newSource(i, region, ca)
	shared.Lock()
	defer shared.Unlock()
	if c := shared.bySource[s]; c != nil {
		return c, nil
	}
	p, err := newProvider(s)
	if err != nil {
		return nil, err
	}
	if len(shared.bySource) >= maxShared {
		clear(shared.bySource)
	}
	c := credentials.New(p)
	shared.bySource[s] = c
	return c, nil
}

// maxShared is the maximum number of shared credentials. A cluster has a few BackupStores.
const maxShared = 256

var shared = struct {
	sync.Mutex

	bySource map[source]*credentials.Credentials
}{bySource: map[source]*credentials.Credentials{}}

// A provider gets credentials for a source, and renews them before they expire. credentials.Credentials calls it from
// one goroutine at a time.
type provider struct {
	redact.All

	source     source
	sts, agent *http.Client
	now        func() time.Time

	// value are the last credentials. renewAt is the time at which they are renewed.
	value   credentials.Value
	renewAt time.Time
	// failure is the last error since value was renewed. Until retryAt, it is returned without a new request.
	failure error
	retryAt time.Time
}

var _ credentials.Provider = (*provider)(nil)

func newProvider(s source) (*provider, error) {
	sts, err := newClient(s.ca, http.ProxyFromEnvironment)
	if err != nil {
		return nil, err
	}
	agent, err := newClient("", nil) // The agent is on the node. Its requests are not encrypted, so no proxy may see them.
	return &provider{source: s, sts: sts, agent: agent, now: time.Now}, err
}

// IsExpired reports whether the credentials must be renewed.
func (p *provider) IsExpired() bool { return !p.now().Before(p.renewAt) }

// Retrieve returns new credentials.
func (p *provider) Retrieve() (credentials.Value, error) { return p.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext returns new credentials. If this fails, it returns the previous ones while they are valid.
func (p *provider) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	now := p.now()
	if p.failure != nil && now.Before(p.retryAt) {
		return credentials.Value{}, p.failure
	}
	ctx := context.Background()
	if cc != nil && cc.Context != nil {
		ctx = cc.Context
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	next, err := p.request(ctx)
	if err == nil {
		err = check(next, p.now())
	}
	log.FromContext(ctx).V(1).Info("Requested credentials for the identity of the pod", "took", p.now().Sub(now), "expires",
		next.Expiration, "error", err)
	now = p.now()
	switch {
	case err == nil:
		p.value, p.failure = next, nil
		p.renewAt = now.Add(min(next.Expiration.Sub(now), maxLifetime) / 4 * 3)
	case p.value.Expiration.Sub(now) > minLifetime:
		p.renewAt = now.Add(pause) // The credentials remain valid, so the renewal is retried.
	default:
		p.failure, p.retryAt = err, now.Add(pause)
		return credentials.Value{}, err
	}
	return p.value, nil
}

// request requests credentials from the token service, or from the agent of EKS Pod Identity on the node.
func (p *provider) request(ctx context.Context) (credentials.Value, error) {
	switch s := p.source; {
	case s.tokenFile != "":
		return p.assumeRole(ctx)
	case s.agentURL != "" && s.identityRole != "":
		return credentials.Value{}, &Error{Advice: "workloadIdentity.roleARN and EKS Pod Identity cannot be combined: " +
			"remove roleARN, and set the role in the pod identity association", Err: errors.New("AWS_WEB_IDENTITY_TOKEN_FILE is not set")}
	case s.agentURL != "":
		return p.askAgent(ctx)
	}
	return credentials.Value{}, &Error{Advice: "the pod " + podName() + " has no workload identity: annotate its " +
		"service account with the role, or create a pod identity association, and restart the pod",
		Err: errors.New("neither AWS_WEB_IDENTITY_TOKEN_FILE nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set")}
}

// podName returns the name of the pod, which is its host name.
func podName() string {
	name, err := os.Hostname()
	if err != nil {
		return "of this process"
	}
	return name
}

// check refuses credentials with which requests would be anonymous, or that are about to expire.
func check(v credentials.Value, now time.Time) error {
	switch {
	case v.AccessKeyID == "" || v.SecretAccessKey == "" || v.SessionToken == "":
		return &Error{IsTemporary: true, Advice: retried, Err: errors.New("the response contains no credentials")}
	case v.Expiration.Sub(now) <= minLifetime:
		return &Error{Advice: "the credentials have expired: check the clock of this node",
			Err: errors.New("they expire at " + v.Expiration.UTC().Format(time.RFC3339))}
	}
	return nil
}

var regionPattern = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// stsURL returns the URL of the token service.
func (s source) stsURL() (string, error) {
	region := s.region
	if region == "" {
		region = s.bucketRegion
	}
	switch {
	case s.stsServer != "" && !strings.HasPrefix(s.stsServer, "https://"):
		return "", &Error{Advice: "workloadIdentity.stsEndpoint must begin with https://, because it receives the token " +
			"of the pod", Err: errors.New(s.stsServer)}
	case s.stsServer != "":
		return s.stsServer, nil
	case !regionPattern.MatchString(region):
		return "", &Error{Advice: "set region or workloadIdentity.stsEndpoint, which determine the token service",
			Err: errors.New(region + " is no region of AWS")}
	case strings.HasPrefix(region, "cn-"):
		return "https://sts." + region + ".amazonaws.com.cn", nil
	}
	return "https://sts." + region + ".amazonaws.com", nil
}

// newClient returns a client that follows no redirects, because requests contain a token.
func newClient(ca string, proxy func(*http.Request) (*url.URL, error)) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA bundle contains no PEM certificate")
		}
	}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{Proxy: proxy, DialContext: Dialer(timeout).DialContext, TLSClientConfig: config,
			TLSHandshakeTimeout: timeout, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
