package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/workload"
)

// A Kind is the kind of a store error. It determines the advice to the user.
type Kind string

// These are the kinds of store errors.
const (
	// NotFound means that an object does not exist, and NoUpload that an upload does not exist.
	NotFound Kind = "NotFound"
	NoUpload Kind = "NoUpload"
	// Exists means that an object already exists and must not be overwritten.
	Exists Kind = "Exists"
	// Unsupported means that the store does not support an operation.
	Unsupported Kind = "Unsupported"
	// Unreachable means that the store does not respond. Untrusted means that its certificate is not trusted.
	Unreachable Kind = "Unreachable"
	Untrusted   Kind = "Untrusted"
	// Unknown means that the credentials do not exist in the store. Denied means that they lack a permission.
	Unknown Kind = "UnknownCredentials"
	Denied  Kind = "Denied"
	// NoCredentials means that the pod gets no credentials by workload identity.
	NoCredentials Kind = "NoCredentials"
	// WrongClock means that the time of a request differs too much from the store's clock.
	WrongClock Kind = "WrongClock"
	// WrongRegion means that the bucket is in another region, and NoBucket that the bucket does not exist.
	WrongRegion Kind = "WrongRegion"
	NoBucket    Kind = "NoBucket"
	// PathStyle means that the endpoint requires the bucket in the URL's path instead of its host name.
	PathStyle Kind = "PathStyle"
	// Full means that the store has no space. Busy means that it refuses requests temporarily.
	Full Kind = "Full"
	Busy Kind = "Busy"
	// Stopped means that the caller has canceled the request.
	Stopped Kind = "Stopped"
	// Failed means any other error.
	Failed Kind = "Failed"
)

// advice contains the next step for the user. It has no entry for a kind of error that the caller handles.
var advice = map[Kind]string{
	Unreachable: "the store cannot be reached: check the endpoint, the network and its policies",
	Untrusted:   "the store's certificate is not trusted: check caBundle, and the host name in the endpoint",
	Unknown: "the store does not recognize the credentials: check the Secret in credentialsSecretRef, or the role of " +
		"workloadIdentity",
	Denied:      "the credentials do not permit this request: docs/how-to/stores.md lists the policy that they need",
	WrongClock:  "the clocks of the store and of this machine differ too much: correct them",
	WrongRegion: "the bucket is in another region, or needs another endpoint: check region, endpoint and pathStyle",
	PathStyle: "the endpoint does not serve the bucket under its own host name: set pathStyle: true, or check " +
		"endpoint and bucket",
	NoBucket:    "the bucket does not exist: create it, or check bucket and pathStyle",
	Full:        "the store or its quota is full: free space",
	Busy:        "the store is busy or has an internal error: the request is retried",
	Unsupported: "the store does not support this request",
}

// An Error is an error of an operation on a store, with the Kind of the error.
type Error struct {
	Kind Kind
	// Verb and Key are the operation that failed and its object.
	Verb, Key string
	// Err is the error of the store or of the network.
	Err error
}

func (e *Error) Error() string {
	text := v1.PrintableText(e.Err.Error(), v1.MaxForeignText)
	if errors.As(e.Err, new(*workload.Error)) { // It contains its own advice.
		return fmt.Sprintf("cannot %s %q: %s", e.Verb, e.Key, text)
	}
	if a := advice[e.Kind]; a != "" {
		return fmt.Sprintf("cannot %s %q: %s (%s)", e.Verb, e.Key, a, text)
	}
	return fmt.Sprintf("cannot %s %q: %s", e.Verb, e.Key, text)
}

// Unwrap returns the error of the store or of the network.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether an error is an Error of this kind.
func Is(err error, k Kind) bool {
	e := new(Error)
	return errors.As(err, &e) && e.Kind == k
}

// KindOf returns the kind of an error, or Failed if it is not an error of a store.
func KindOf(err error) Kind {
	if e := new(Error); errors.As(err, &e) {
		return e.Kind
	}
	return Failed
}

// explain adds the operation, the object and the kind to an error. It detects an endpoint that requires the bucket in
// the path.
func (b *Bucket) explain(verb, key string, err error) error {
	err = explain(verb, key, err)
	if e := new(Error); errors.As(err, &e) && !b.pathStyle && b.wantsPath(e) {
		e.Kind = PathStyle
	}
	return err
}

// wantsPath reports whether an error shows that the endpoint does not serve buckets under their own host names,
// BUCKET.ENDPOINT. Either it has no certificate or no address for such a name, or its response shows that it does not
// know the name.
func (b *Bucket) wantsPath(err error) bool {
	name := b.bucket + "." + b.host
	certificate, dns, answer := x509.HostnameError{}, new(net.DNSError), minio.ErrorResponse{}
	switch {
	case errors.As(err, &certificate):
		return certificate.Host == name
	case errors.As(err, &dns):
		return strings.TrimSuffix(dns.Name, ".") == name && dns.IsNotFound
	case strings.Contains(err.Error(), "tls: unrecognized name"):
		return true
	case strings.HasSuffix(b.host, "amazonaws.com") || !errors.As(err, &answer):
		return false
	}
	return answer.StatusCode == http.StatusMovedPermanently || answer.StatusCode == http.StatusMisdirectedRequest ||
		answer.StatusCode == http.StatusBadRequest && answer.Code == "InvalidBucketName" ||
		answer.StatusCode == http.StatusBadRequest && isNoCode(answer.Code)
}

// isNoCode reports whether a response contained no S3 error code. minio-go then uses the status line as the code.
func isNoCode(code string) bool { return code == "" || strings.HasPrefix(code, "400") }

func explain(verb, key string, err error) error {
	if err == nil {
		return nil
	}
	if e := new(Error); errors.As(err, &e) {
		return err
	}
	return &Error{Kind: kindOf(err), Verb: verb, Key: key, Err: err}
}

// codes maps the error codes of S3 and compatible stores to kinds. They are more specific than the HTTP status:
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html.
var codes = map[string]Kind{
	"NoSuchKey": NotFound, "NoSuchVersion": NotFound,
	"NoSuchUpload": NoUpload,
	"NoSuchBucket": NoBucket, "InvalidBucketName": NoBucket,
	"PreconditionFailed": Exists, "ConditionalRequestConflict": Exists,
	"NotImplemented": Unsupported, "MethodNotAllowed": Unsupported,
	"InvalidAccessKeyId": Unknown, "SignatureDoesNotMatch": Unknown, "InvalidToken": Unknown, "ExpiredToken": Unknown,
	"XAdminInvalidAccessKey": Unknown,
	"AccessDenied":           Denied, "AllAccessDisabled": Denied, "AccountProblem": Denied, "ObjectLocked": Denied,
	"InvalidObjectState":   Denied,
	"RequestTimeTooSkewed": WrongClock, "RequestExpired": WrongClock,
	"AuthorizationHeaderMalformed": WrongRegion, "PermanentRedirect": WrongRegion, "TemporaryRedirect": WrongRegion,
	"IllegalLocationConstraintException": WrongRegion,
	"QuotaExceeded":                      Full, "XMinioStorageFull": Full, "XMinioAdminBucketQuotaExceeded": Full,
	"InsufficientStorage": Full,
	"EntityTooLarge":      Full,
	"SlowDown":            Busy, "SlowDownWrite": Busy, "SlowDownRead": Busy, "InternalError": Busy,
	"ServiceUnavailable": Busy,
	"RequestTimeout":     Busy,
	"OperationAborted":   Busy, "TooManyRequests": Busy, "Throttling": Busy,
}

func kindOf(err error) Kind {
	answer := minio.ErrorResponse{}
	network, dns, identity := net.Error(nil), new(net.DNSError), new(workload.Error)
	switch {
	case errors.As(err, &identity) && identity.IsTemporary:
		return Busy // Otherwise the store would not be called for a while.
	case errors.As(err, &identity):
		return NoCredentials
	case errors.Is(err, context.Canceled):
		return Stopped
	case isUntrusted(err):
		return Untrusted
	case errors.As(err, &answer) && (answer.StatusCode != 0 || codes[answer.Code] != ""):
		return kindOfAnswer(answer)
	case errors.As(err, &dns), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err,
		errStalled):
		return Unreachable
	}
	return Failed
}

func isUntrusted(err error) bool {
	unknown, host, invalid, check :=
		x509.UnknownAuthorityError{}, x509.HostnameError{}, x509.CertificateInvalidError{}, new(
			tls.CertificateVerificationError)
	return errors.As(err, &unknown) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &check) ||
		strings.Contains(err.Error(), "HTTP response to HTTPS client")
}

func kindOfAnswer(r minio.ErrorResponse) Kind {
	if k, ok := codes[r.Code]; ok {
		return k
	}
	switch s := r.StatusCode; {
	case s == http.StatusNotFound:
		return NotFound
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return Denied
	case s == http.StatusPreconditionFailed, s == http.StatusConflict:
		return Exists
	case s == http.StatusNotImplemented, s == http.StatusMethodNotAllowed:
		return Unsupported
	case s == http.StatusInsufficientStorage, s == http.StatusRequestEntityTooLarge:
		return Full
	case s >= http.StatusMultipleChoices && s < http.StatusBadRequest:
		return WrongRegion
	case s == http.StatusTooManyRequests, s == http.StatusRequestTimeout, s >= http.StatusInternalServerError:
		return Busy
	}
	return Failed
}
