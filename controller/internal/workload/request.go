package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"
)

// An Error means that a pod did not get credentials.
type Error struct {
	// Advice is the next step for the platform team.
	Advice string
	// IsTemporary is true if a later attempt may succeed without any change.
	IsTemporary bool
	Err         error
}

func (e *Error) Error() string { return e.Advice + " (" + e.Err.Error() + ")" }

// Unwrap returns the error of the token service, of the network or of the pod.
func (e *Error) Unwrap() error { return e.Err }

const retried = "the token service has an error: the request is retried"

// advice contains the next step for the error codes of the token service:
// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRoleWithWebIdentity.html.
var advice = map[string]string{
	"AccessDenied": "the role refuses the service account of this pod: its trust policy must allow " +
		"sts:AssumeRoleWithWebIdentity for the service accounts of the controller and of the gateway",
	"InvalidIdentityToken": "the token of the service account is not accepted: create an OIDC provider for this cluster " +
		"in IAM, with the audience of the token",
	"ExpiredTokenException": "the token in AWS_WEB_IDENTITY_TOKEN_FILE has expired: check the clock of this node, and that " +
		"the kubelet renews the token",
	"IDPRejectedClaim": "the OIDC provider of this cluster refuses the token: check its audience",
	"RegionDisabledException": "the token service is not activated in this region: activate it, or set " +
		"workloadIdentity.stsEndpoint",
	"ValidationError": "the role or the token is malformed: check workloadIdentity.roleARN and the annotation of the service " +
		"account",
}

// assumeRole exchanges the token of the service account for credentials. The kubelet renews the token in the file, so
// it is read each time.
func (p *provider) assumeRole(ctx context.Context) (credentials.Value, error) {
	server, err := p.source.stsURL()
	if err != nil {
		return credentials.Value{}, err
	}
	role := p.source.identityRole
	if role == "" {
		role = p.source.role
	}
	if role == "" && p.source.stsServer == "" {
		return credentials.Value{}, &Error{Advice: "no role is set: annotate the service account of this pod with the role, " +
			"or set workloadIdentity.roleARN", Err: errors.New("AWS_ROLE_ARN is not set")}
	}
	token, err := readToken(p.source.tokenFile)
	if err != nil {
		return credentials.Value{}, err
	}
	seen := &observer{next: p.sts.Transport}
	client := *p.sts
	client.Transport = seen
	v, err := (&credentials.STSWebIdentity{
		Client: &client, STSEndpoint: server, RoleARN: role,
		GetWebIDTokenExpiry: func() (*credentials.WebIdentityToken, error) {
			return &credentials.WebIdentityToken{Token: token}, nil
		},
	}).RetrieveWithCredContext(&credentials.CredContext{Context: ctx})
	return v, explain(err, "the token service "+server, seen.status)
}

// readToken reads a token of the pod.
func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // The path is set by Kubernetes.
	switch token := strings.TrimSpace(string(raw)); {
	case err != nil:
		return "", &Error{Advice: "the pod " + podName() + " has no token of its service account: check the annotation of " +
			"the service account, and restart the pod", Err: err}
	case token == "":
		return "", &Error{IsTemporary: true, Advice: "the pod's token is empty: the request is retried",
			Err: fmt.Errorf("%s is empty", path)}
	default:
		return token, nil
	}
}

// explain returns the error of a request for credentials with advice. status is the HTTP status, or 0 if there was no
// response.
func explain(err error, server string, status int) error {
	answer := credentials.ErrorResponse{}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer) && answer.STSError.Code != "" && advice[answer.STSError.Code] != "":
		return &Error{Advice: advice[answer.STSError.Code],
			Err: fmt.Errorf("%s: %w", answer.STSError.Code, err)}
	case status == 0:
		return &Error{IsTemporary: true, Advice: server + " does not respond: check the network and its policies", Err: err}
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusOK ||
		answer.STSError.Code == "Throttling" || answer.STSError.Code == "IDPCommunicationError":
		return &Error{IsTemporary: true, Advice: retried, Err: fmt.Errorf("status %d: %w", status, err)}
	}
	return &Error{Advice: server + " refuses the request: check the role and the identity of the service account",
		Err: fmt.Errorf("status %d %s: %w", status, answer.STSError.Code, err)}
}

// agentHosts are the hosts to which a token may be sent without TLS: the agent of EKS Pod Identity, which is on the
// node, and loopback addresses.
var agentHosts = []string{"169.254.170.23", "fd00:ec2::23"}

// askAgent requests credentials from the agent of EKS Pod Identity:
// https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html.
func (p *provider) askAgent(ctx context.Context) (credentials.Value, error) {
	u, err := url.Parse(p.source.agentURL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !isOnNode(u.Hostname())) {
		return credentials.Value{}, &Error{Advice: "AWS_CONTAINER_CREDENTIALS_FULL_URI must be a URL of the EKS Pod Identity " +
			"Agent, of a loopback address, or begin with https://", Err: fmt.Errorf("%q cannot be used", p.source.agentURL)}
	}
	token, err := readToken(p.source.agentTokenFile)
	if err != nil {
		return credentials.Value{}, err
	}
	seen := &observer{next: p.agent.Transport}
	client := *p.agent
	client.Transport = seen
	v, err := fetch(ctx, &client, u, token)
	return v, explain(err, "the EKS Pod Identity Agent", seen.status)
}

func isOnNode(host string) bool {
	return slices.Contains(agentHosts, host) || net.ParseIP(host).IsLoopback()
}

func fetch(ctx context.Context, client *http.Client, u *url.URL, token string) (v credentials.Value, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return v, err
	}
	r.Header.Set("Authorization", token)
	answer, err := client.Do(r)
	if err != nil {
		return v, err
	}
	defer answer.Body.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return v, err
	case answer.StatusCode != http.StatusOK:
		return v, errors.New(strings.TrimSpace(string(raw)))
	}
	var body struct {
		AccessKeyID     string    `json:"AccessKeyId"`     //nolint:tagliatelle // These are AWS' spellings.
		SecretAccessKey string    `json:"SecretAccessKey"` //nolint:tagliatelle // As above.
		Token           string    `json:"Token"`           //nolint:tagliatelle // As above.
		Expiration      time.Time `json:"Expiration"`      //nolint:tagliatelle // As above.
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return v, errors.New("the response is not JSON") // The error of the library may contain a part of it.
	}
	return credentials.Value{AccessKeyID: body.AccessKeyID, SecretAccessKey: body.SecretAccessKey, SessionToken: body.Token,
		Expiration: body.Expiration, SignerType: credentials.SignatureV4}, nil
}

// An observer is an http.RoundTripper that stores the status of the last response, and limits the size of responses.
type observer struct {
	next   http.RoundTripper
	status int
}

// RoundTrip sends a request, stores the status of its response, and limits the size of the response.
func (o *observer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := o.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	o.status = answer.StatusCode
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	return answer, nil
}
