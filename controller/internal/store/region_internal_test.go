package store

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

type answered func(*http.Request) *http.Response

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

// TestRegionOfAWS checks where the region of a bucket of AWS comes from, and the error if AWS does not report it.
func TestRegionOfAWS(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint, bucket string
		status           int
		region           string
		host, want       string
		kind             Kind
	}{
		"Endpoint":  {endpoint: "https://s3.eu-west-3.amazonaws.com", want: "eu-west-3"},
		"DualStack": {endpoint: "https://s3.dualstack.eu-west-3.amazonaws.com", want: "eu-west-3"},
		"China":     {endpoint: "https://s3.cn-north-1.amazonaws.com.cn", want: "cn-north-1"},
		"Global": {endpoint: "https://s3.amazonaws.com", status: http.StatusForbidden, region: "ap-south-1",
			host: "acme.s3.amazonaws.com/", want: "ap-south-1"},
		"Dots": {endpoint: "https://s3.amazonaws.com", bucket: "acme.test", status: http.StatusForbidden,
			region: "ap-south-1", host: "s3.amazonaws.com/acme.test", want: "ap-south-1"},
		"NoBucket": {endpoint: "https://s3.amazonaws.com", status: http.StatusNotFound, host: "acme.s3.amazonaws.com/",
			kind: NoBucket},
		"NotReported": {endpoint: "https://s3.amazonaws.com", status: http.StatusForbidden, host: "acme.s3.amazonaws.com/",
			kind: WrongRegion},
	} {
		t.Run(name, func(t *testing.T) {
			u, err := url.Parse(c.endpoint)
			if err != nil {
				t.Fatal(err)
			}
			s := Settings{Endpoint: c.endpoint, Bucket: c.bucket}
			if s.Bucket == "" {
				s.Bucket = "acme"
			}
			got := s.knownRegion(u)
			if c.host != "" && got == "" {
				var isFinal bool
				got, isFinal, err = s.findRegion(t.Context(), u, answered(func(r *http.Request) *http.Response {
					if r.URL.Host+r.URL.Path != c.host {
						t.Errorf("want a request to %s, got %s", c.host, r.URL)
					}
					a := &http.Response{StatusCode: c.status, Header: http.Header{}, Body: http.NoBody}
					if c.region != "" {
						a.Header.Set(regionHeader, c.region)
					}
					return a
				}))
				if isFinal != (err == nil) {
					t.Errorf("got %t, %v", isFinal, err)
				}
			}
			err = explain("write", "k", err)
			if got != c.want || c.kind != "" && !Is(err, c.kind) || c.kind == "" && err != nil {
				t.Errorf("want %s, %s, got %s, %v", c.want, c.kind, got, err)
			}
			if c.kind == WrongRegion && !strings.Contains(err.Error(), "set region in the BackupStore") {
				t.Errorf("want that it says what to set, got %v", err)
			}
		})
	}
}
