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
)

// A Kind of failure: what it means, and what to do.
type Kind string

// Kinds of failures.
const (
	// NotFound is of an object that is not there, NoUpload of an upload.
	NotFound Kind = "NotFound"
	NoUpload Kind = "NoUpload"
	// Exists is of an object that was to be written where there is none.
	Exists Kind = "Exists"
	// Unsupported is of what the store does not know.
	Unsupported Kind = "Unsupported"
	// Unreachable stores do not answer, Untrusted ones are not who they should be.
	Unreachable Kind = "Unreachable"
	Untrusted   Kind = "Untrusted"
	// Unknown credentials, and Denied ones that have no right.
	Unknown Kind = "UnknownCredentials"
	Denied  Kind = "Denied"
	// WrongClock is of a request that the store takes for one of another time.
	WrongClock Kind = "WrongClock"
	// WrongRegion and NoBucket are of settings.
	WrongRegion Kind = "WrongRegion"
	NoBucket    Kind = "NoBucket"
	// PathStyle endpoints want the bucket in the path instead of the host's name.
	PathStyle Kind = "PathStyle"
	// Full stores take no more, Busy ones not now.
	Full Kind = "Full"
	Busy Kind = "Busy"
	// Stopped is who asked.
	Stopped Kind = "Stopped"
	// Failed is everything else.
	Failed Kind = "Failed"
)

// advice of what to do; nothing where that goes by itself, or is the caller's.
var advice = map[Kind]string{
	Unreachable: "the store cannot be reached: look at the endpoint, the network and its policies",
	Untrusted:   "the store's certificate is not trusted: look at caBundle, and at the name in the endpoint",
	Unknown:     "the store does not know the credentials: look at the Secret that credentialsSecretRef names",
	Denied:      "the credentials may not do that: docs/stores.md has the policy that they need",
	WrongClock:  "the store's clock and this one differ by too much: set them",
	WrongRegion: "the bucket is in another region, or needs another endpoint: look at region, endpoint and pathStyle",
	PathStyle:   "the endpoint does not serve the bucket under a host name of its own: set pathStyle: true, or look at endpoint and bucket",
	NoBucket:    "there is no such bucket: make it, or look at bucket and pathStyle",
	Full:        "the store is full, or its quota is: make room",
	Busy:        "the store is busy, or has a fault of its own: it is tried again",
	Unsupported: "the store does not know this request",
}

// An Error of a store.
type Error struct {
	Kind Kind
	// Verb and Key say what could not be done.
	Verb, Key string
	// Err is what the store, or the network, has said.
	Err error
}

func (e *Error) Error() string {
	said := v1.PrintableText(e.Err.Error(), v1.MaxForeignText)
	if a := advice[e.Kind]; a != "" {
		return fmt.Sprintf("cannot %s %q: %s (%s)", e.Verb, e.Key, a, said)
	}
	return fmt.Sprintf("cannot %s %q: %s", e.Verb, e.Key, said)
}

// Unwrap is what the store, or the network, has said.
func (e *Error) Unwrap() error { return e.Err }

// Is true for an error of that kind.
func Is(err error, k Kind) bool {
	e := new(Error)
	return errors.As(err, &e) && e.Kind == k
}

// KindOf an error; Failed where it is none of a store.
func KindOf(err error) Kind {
	if e := new(Error); errors.As(err, &e) {
		return e.Kind
	}
	return Failed
}

// explain what could not be done, and whether it was because of the name that the bucket was asked under.
func (b *Bucket) explain(verb, key string, err error) error {
	err = explain(verb, key, err)
	if e := new(Error); errors.As(err, &e) && !b.pathStyle && b.wantsPath(e) {
		e.Kind = PathStyle
	}
	return err
}

// wantsPath reports whether an error shows that the endpoint does not serve buckets as hosts of their own, BUCKET.ENDPOINT: it has no
// certificate or no address for such a name, or answers as one that does not know the name.
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
		answer.StatusCode == http.StatusBadRequest && answer.Code == "InvalidBucketName" || answer.StatusCode == http.StatusBadRequest && isNoCode(answer.Code)
}

// isNoCode reports whether an answer was none of S3: minio-go makes a code of its status line.
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

// codes of S3, and of those who speak it, beside the HTTP status:
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html.
var codes = map[string]Kind{
	"NoSuchKey": NotFound, "NoSuchVersion": NotFound,
	"NoSuchUpload": NoUpload,
	"NoSuchBucket": NoBucket, "InvalidBucketName": NoBucket,
	"PreconditionFailed": Exists, "ConditionalRequestConflict": Exists,
	"NotImplemented": Unsupported, "MethodNotAllowed": Unsupported,
	"InvalidAccessKeyId": Unknown, "SignatureDoesNotMatch": Unknown, "InvalidToken": Unknown, "ExpiredToken": Unknown, "XAdminInvalidAccessKey": Unknown,
	"AccessDenied": Denied, "AllAccessDisabled": Denied, "AccountProblem": Denied, "ObjectLocked": Denied, "InvalidObjectState": Denied,
	"RequestTimeTooSkewed": WrongClock, "RequestExpired": WrongClock,
	"AuthorizationHeaderMalformed": WrongRegion, "PermanentRedirect": WrongRegion, "TemporaryRedirect": WrongRegion, "IllegalLocationConstraintException": WrongRegion,
	"QuotaExceeded": Full, "XMinioStorageFull": Full, "XMinioAdminBucketQuotaExceeded": Full, "InsufficientStorage": Full, "EntityTooLarge": Full,
	"SlowDown": Busy, "SlowDownWrite": Busy, "SlowDownRead": Busy, "InternalError": Busy, "ServiceUnavailable": Busy, "RequestTimeout": Busy,
	"OperationAborted": Busy, "TooManyRequests": Busy, "Throttling": Busy,
}

func kindOf(err error) Kind {
	answer := minio.ErrorResponse{}
	network, dns := net.Error(nil), new(net.DNSError)
	switch {
	case errors.Is(err, context.Canceled):
		return Stopped
	case isUntrusted(err):
		return Untrusted
	case errors.As(err, &answer) && (answer.StatusCode != 0 || codes[answer.Code] != ""):
		return kindOfAnswer(answer)
	case errors.As(err, &dns), errors.As(err, &network), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStalled):
		return Unreachable
	}
	return Failed
}

func isUntrusted(err error) bool {
	unknown, host, invalid, check := x509.UnknownAuthorityError{}, x509.HostnameError{}, x509.CertificateInvalidError{}, new(tls.CertificateVerificationError)
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
