package store

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestWantsPath checks that an endpoint which requires path-style addressing is recognized by its errors. Such an
// endpoint does not serve a bucket under the host name BUCKET.ENDPOINT.
func TestWantsPath(t *testing.T) {
	answer := func(status int, code string) error {
		return minio.ErrorResponse{StatusCode: status, Code: code, Message: "said"}
	}
	for name, tc := range map[string]struct {
		host string
		path bool
		err  error
		want Kind
	}{
		"Certificate": {host: "s3.test",
			err: &url.Error{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "bucket.s3.test"}}, want: PathStyle},
		"OtherName": {host: "s3.test",
			err: &url.Error{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: "s3.test"}}, want: Untrusted},
		"NoAddress": {host: "s3.test",
			err:  &url.Error{Err: &net.DNSError{Err: "no such host", Name: "bucket.s3.test.", IsNotFound: true}},
			want: PathStyle},
		"NoServer": {host: "s3.test", err: &url.Error{Err: &net.DNSError{Err: "timeout", Name: "bucket.s3.test"}},
			want: Unreachable},
		"Moved": {host: "s3.test", err: answer(http.StatusMovedPermanently, ""), want: PathStyle},
		"MovedAWS": {host: "s3.eu-central-1.amazonaws.com",
			err: answer(http.StatusMovedPermanently, "PermanentRedirect"), want: WrongRegion},
		"Misdirected":   {host: "s3.test", err: answer(http.StatusMisdirectedRequest, ""), want: PathStyle},
		"BadRequest":    {host: "s3.test", err: answer(http.StatusBadRequest, "400 Bad Request"), want: PathStyle},
		"NoBucketsName": {host: "s3.test", err: answer(http.StatusBadRequest, "InvalidBucketName"), want: PathStyle},
		"Region": {host: "s3.test", err: answer(http.StatusBadRequest, "AuthorizationHeaderMalformed"),
			want: WrongRegion},
		"PathAlready": {host: "s3.test", path: true, err: answer(http.StatusMovedPermanently, ""), want: WrongRegion},
		"PathsNoAddress": {host: "s3.test", path: true,
			err: &url.Error{Err: &net.DNSError{Err: "no such host", Name: "s3.test", IsNotFound: true}}, want: Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			b := &Bucket{bucket: "bucket", host: tc.host, pathStyle: tc.path}
			if got := b.explain("read", "k", tc.err); !Is(got, tc.want) {
				t.Errorf("want %s, got %v", tc.want, got)
			}
		})
	}
}
