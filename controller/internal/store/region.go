package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

const (
	// regionHeader is in each response of AWS to a request for a bucket, also if it refuses the request:
	// https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadBucket.html.
	regionHeader = "X-Amz-Bucket-Region"
	// regionTimeout is the timeout for a request for the region.
	regionTimeout = 30 * time.Second
)

// A place identifies a bucket by the endpoint of its store and by its name.
type place struct{ endpoint, bucket string }

// regions contains the regions that stores have reported, by place. The region of a bucket never changes, but a process
// opens a bucket many times.
var regions sync.Map

// knownRegion returns the region of the bucket if it is known without a request, or "".
func (s Settings) knownRegion(u *url.URL) string {
	if s.Region != "" {
		return s.Region
	}
	if region := s3utils.GetRegionFromURL(*u); region != "" {
		return region
	}
	region, _ := regions.Load(place{s.Endpoint, s.Bucket})
	name, _ := region.(string)
	return name
}

// An unlocated is the client of a bucket whose region must be found before the first signed request.
type unlocated struct {
	redact.All

	settings  Settings
	endpoint  *url.URL
	transport http.RoundTripper

	mu   sync.Mutex
	core *minio.Core
}

// connect finds the region, and returns the client. If this fails, the next call tries again.
func (l *unlocated) connect(ctx context.Context) (*minio.Core, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.core != nil {
		return l.core, nil
	}
	region := l.settings.knownRegion(l.endpoint)
	isFinal := region != ""
	if !isFinal {
		var err error
		if region, isFinal, err = l.settings.findRegion(ctx, l.endpoint, l.transport); err != nil {
			return nil, err
		}
	}
	core, err := l.settings.newCore(l.endpoint, region, l.transport)
	if err != nil || !isFinal {
		return core, err
	}
	regions.Store(place{l.settings.Endpoint, l.settings.Bucket}, region)
	l.core = core
	return core, nil
}

// errNoRegion means that AWS has not reported the region of a bucket.
var errNoRegion = errors.New("the response does not contain the region of the bucket: set region in the BackupStore")

// findRegion asks the store for the region of the bucket, without credentials, because a signature already contains the
// region. Stores without regions do not report one, and accept signatures for the first region of AWS. isFinal is false
// if the store has answered that there is no such bucket, because the bucket may be created later.
func (s Settings) findRegion(ctx context.Context, u *url.URL, transport http.RoundTripper) (region string, isFinal bool,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, regionTimeout)
	defer cancel()
	address := url.URL{Scheme: u.Scheme, Host: s.Bucket + "." + u.Host, Path: "/"}
	if s.PathStyle || strings.Contains(s.Bucket, ".") { // A certificate for *.HOST is invalid for a name with more dots.
		address.Host, address.Path = u.Host, "/"+s.Bucket
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, address.String(), nil)
	if err != nil {
		return "", false, err
	}
	answer, err := bounded{transport}.RoundTrip(r)
	if err != nil {
		return "", false, &url.Error{Op: "Head", URL: address.String(), Err: err}
	}
	_, _ = io.Copy(io.Discard, answer.Body) // A response to HEAD has no body.
	_ = answer.Body.Close()                 // Nothing was written.
	log.FromContext(ctx).V(1).Info("Asked the store for the region of the bucket", "bucket", s.Bucket, "status",
		answer.StatusCode, "region", answer.Header.Get(regionHeader))
	region = answer.Header.Get(regionHeader)
	switch {
	case region != "" && len(region) <= 64:
		return region, true, nil
	case answer.StatusCode >= http.StatusInternalServerError || answer.StatusCode == http.StatusTooManyRequests:
		return "", false, minio.ErrorResponse{StatusCode: answer.StatusCode, Code: "ServiceUnavailable",
			Message: fmt.Sprintf("status %d to the request for the region", answer.StatusCode)}
	case s3utils.IsAmazonEndpoint(*u) && answer.StatusCode == http.StatusNotFound:
		return "", false, minio.ErrorResponse{StatusCode: answer.StatusCode, Code: "NoSuchBucket", Message: "status 404"}
	case s3utils.IsAmazonEndpoint(*u):
		return "", false, &Error{Kind: WrongRegion, Verb: "find the region of", Key: s.Bucket, Err: errNoRegion}
	}
	return defaultRegion, answer.StatusCode != http.StatusNotFound, nil
}
