package store

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

func TestKinds(t *testing.T) {
	answer := func(status int, code string) error {
		return minio.ErrorResponse{StatusCode: status, Code: code, Message: "said"}
	}
	for name, c := range map[string]struct {
		err  error
		want Kind
	}{
		"NoSuchKey":         {answer(http.StatusNotFound, "NoSuchKey"), NotFound},
		"NotFoundWithoutIt": {answer(http.StatusNotFound, ""), NotFound},
		"NoSuchBucket":      {answer(http.StatusNotFound, "NoSuchBucket"), NoBucket},
		"NoSuchUpload":      {answer(http.StatusNotFound, "NoSuchUpload"), NoUpload},
		"Precondition":      {answer(http.StatusPreconditionFailed, "PreconditionFailed"), Exists},
		"Conflict":          {answer(http.StatusConflict, "ConditionalRequestConflict"), Exists},
		"NotImplemented":    {answer(http.StatusNotImplemented, "NotImplemented"), Unsupported},
		"Revoked":           {answer(http.StatusForbidden, "InvalidAccessKeyId"), Unknown},
		"WrongSecret":       {answer(http.StatusForbidden, "SignatureDoesNotMatch"), Unknown},
		"Denied":            {answer(http.StatusForbidden, "AccessDenied"), Denied},
		"DeniedWithoutCode": {answer(http.StatusForbidden, ""), Denied},
		"Clock":             {answer(http.StatusForbidden, "RequestTimeTooSkewed"), WrongClock},
		"Region":            {answer(http.StatusBadRequest, "AuthorizationHeaderMalformed"), WrongRegion},
		"Moved":             {answer(http.StatusMovedPermanently, ""), WrongRegion},
		"Full":              {answer(http.StatusInsufficientStorage, ""), Full},
		"Quota":             {answer(http.StatusForbidden, "QuotaExceeded"), Full},
		"SlowDown":          {answer(http.StatusServiceUnavailable, "SlowDown"), Busy},
		"Internal":          {answer(http.StatusInternalServerError, "InternalError"), Busy},
		"Gateway":           {answer(http.StatusBadGateway, ""), Busy},
		"Strange":           {answer(http.StatusTeapot, "Teapot"), Failed},
		"NoHost":            {&url.Error{Err: &net.DNSError{Err: "no such host"}}, Unreachable},
		"Refused":           {&url.Error{Err: &net.OpError{Op: "dial", Err: errors.New("refused")}}, Unreachable},
		"Slow":              {context.DeadlineExceeded, Unreachable},
		"Stalled":           {fmt.Errorf("%w for a while", errStalled), Unreachable},
		"WrongCA":           {&url.Error{Err: x509.UnknownAuthorityError{}}, Untrusted},
		"WrongName":         {&url.Error{Err: x509.HostnameError{Certificate: &x509.Certificate{}}}, Untrusted},
		"NoTLS":             {&url.Error{Err: errors.New("http: server gave HTTP response to HTTPS client")}, Untrusted},
		"Stopped":           {context.Canceled, Stopped},
		"CutOff":            {io.ErrUnexpectedEOF, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			err := explain("read", "k", c.err)
			if !Is(err, c.want) {
				t.Errorf("want %s, got %s", c.want, KindOf(err))
			}
			if !errors.Is(err, c.err) && c.err.Error() != errors.Unwrap(err).Error() {
				t.Errorf("want its cause, got %v", err)
			}
			if a := advice[c.want]; !strings.HasPrefix(err.Error(), `cannot read "k": `+a) {
				t.Errorf("want what to do, got %q", err)
			}
			if second := explain("write", "elsewhere", fmt.Errorf("more: %w", err)); !Is(second, c.want) ||
				strings.Contains(second.Error(), "elsewhere") {
				t.Errorf("want what was said first, got %v", second)
			}
		})
	}
	if KindOf(errors.New("x")) != Failed || explain("read", "k", nil) != nil {
		t.Error("an error of somebody else is no store's, and none is none")
	}
}

// TestOpen checks that invalid settings are refused before a request is sent.
func TestOpen(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Settings)
		says   string
	}{
		"Good":     {func(*Settings) {}, ""},
		"Clear":    {func(s *Settings) { s.Endpoint = "http://s3.test" }, "https://"},
		"Path":     {func(s *Settings) { s.Endpoint = "https://s3.test/backups" }, "their own fields"},
		"Password": {func(s *Settings) { s.Endpoint = "https://a:b@s3.test" }, "their own fields"},
		"NoHost":   {func(s *Settings) { s.Endpoint = "https://" }, "their own fields"},
		"NoURL":    {func(s *Settings) { s.Endpoint = "https://[" }, "is not a URL"},
		"CA":       {func(s *Settings) { s.CA = "no PEM" }, "no PEM certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Settings{Endpoint: "https://s3.test", Bucket: "backups"}
			c.change(&s)
			_, err := Open(s)
			if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("want %q, got %v", c.says, err)
			}
		})
	}
}
