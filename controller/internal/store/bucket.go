package store

import (
	"bufio"
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // See ContentMD5.
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/workload"
)

const (
	// dialTimeout is the timeout for a connection. answerTimeout is the timeout for a response of the store.
	dialTimeout   = 15 * time.Second
	answerTimeout = 2 * time.Minute
	// stallTimeout is the default timeout for a transfer that makes no progress.
	stallTimeout = 2 * time.Minute
	// tries is the maximum number of attempts for a request that can be repeated. The caller can retry later.
	tries = 4
	// maxAnswer is the maximum size in bytes of a response other than an object's content. A list of a thousand
	// objects is about 300 KiB long.
	maxAnswer = 4 << 20
	// defaultRegion is the first region of AWS. Stores without regions accept it.
	defaultRegion = "us-east-1"
)

// Settings identify a bucket and its endpoint.
type Settings struct {
	redact.Logs

	// Endpoint is a URL such as https://s3.eu-central-1.amazonaws.com. It has no path.
	Endpoint string `json:"endpoint"`
	// Region is the region for signatures. If it is empty, it is read from the store (see findRegion).
	Region string `json:"region,omitempty"`
	Bucket string `json:"bucket"`
	// Prefix is the prefix of all object names, without a slash at its end. It may be empty.
	Prefix string `json:"prefix,omitempty"`
	// PathStyle is true if the bucket is part of the URL's path instead of its host name.
	PathStyle bool `json:"pathStyle,omitempty"`
	// CA are the certificate authorities that may sign the store's certificate, as PEM. If it is empty, the system's
	// certificate authorities are used.
	CA string `json:"ca,omitempty"`

	AccessKey string `json:"accessKey,omitempty"`
	SecretKey string `json:"secretKey,omitempty"`
	// SessionToken is the token of temporary credentials. It is empty for permanent ones.
	SessionToken string `json:"sessionToken,omitempty"`
	// WorkloadIdentity is set if the process gets credentials by the identity of its pod. The keys are then empty.
	WorkloadIdentity *workload.Identity `json:"workloadIdentity,omitempty"`
}

// A Bucket contains objects below a prefix. Keys are relative to the prefix.
type Bucket struct {
	// connect returns the client. It finds the region first, unless it is known.
	connect func(context.Context) (*minio.Core, error)
	bucket  string
	prefix  string
	// host is the host of the endpoint. pathStyle is true if the bucket is part of the URL's path instead of its host
	// name.
	host      string
	pathStyle bool
	// stall is the timeout for a transfer of an object's content that makes no progress.
	stall time.Duration
}

// Open returns a bucket. It sends no request to the store.
func Open(s Settings) (*Bucket, error) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the endpoint is not a URL: %w", err)
	case u.Scheme != "https":
		return nil, fmt.Errorf("the endpoint %q does not begin with https://: backups and credentials are never "+
			"sent unencrypted", s.Endpoint)
	case u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the endpoint %q must consist of https:// and a host: the bucket and the prefix have "+
			"their own fields", s.Endpoint)
	}
	transport, err := newTransport(s.CA)
	if err != nil {
		return nil, err
	}
	b := &Bucket{bucket: s.Bucket, prefix: s.Prefix, host: u.Hostname(), pathStyle: s.PathStyle, stall: stallTimeout}
	if region := s.knownRegion(u); region != "" {
		core, err := s.newCore(u, region, transport)
		b.connect = func(context.Context) (*minio.Core, error) { return core, nil }
		return b, err
	}
	b.connect = (&unlocated{settings: s, endpoint: u, transport: transport}).connect
	return b, nil
}

// newCore returns the client of the store at a URL. The client signs its requests for this region.
func (s Settings) newCore(u *url.URL, region string, transport http.RoundTripper) (*minio.Core, error) {
	creds := credentials.NewStaticV4(s.AccessKey, s.SecretKey, s.SessionToken)
	if s.WorkloadIdentity != nil {
		var err error
		if creds, err = workload.Credentials(*s.WorkloadIdentity, region, s.CA); err != nil {
			return nil, err
		}
	}
	o := &minio.Options{
		Creds: creds, Secure: true, Region: region, MaxRetries: tries,
		Transport: bounded{transport}, BucketLookup: minio.BucketLookupDNS,
	}
	if s.PathStyle {
		o.BucketLookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(u.Host, o)
	if err != nil {
		return nil, fmt.Errorf("the endpoint cannot be used: %w", err)
	}
	return core, nil
}

func newTransport(ca string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA bundle contains no PEM certificate")
		}
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: workload.Dialer(dialTimeout).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		DisableCompression: true, // Objects are read byte for byte.
	}, nil
}

// MakeBucket creates the bucket. Only tests and demonstrations use it, because platform teams create their own
// buckets.
func (b *Bucket) MakeBucket(ctx context.Context) error {
	core, err := b.connect(ctx)
	if err == nil {
		err = core.MakeBucket(ctx, b.bucket, minio.MakeBucketOptions{})
	}
	return b.explain("create the bucket", b.bucket, err)
}

// Stat returns an object with its size. It returns a NotFound error if the object does not exist.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	info, err := b.stat(ctx, key)
	return Object{Key: key, Size: info.Size}, err
}

// An Object identifies an object in a bucket, with its size.
type Object struct {
	Key  string
	Size int64
}

// Read reads an object from an offset. The caller must close the reader. If the connection stalls or breaks, the
// reader returns an error.
func (b *Bucket) Read(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if from > 0 {
		if err := o.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	core, err := b.connect(ctx)
	if err != nil {
		return nil, b.explain("read", key, err)
	}
	ctx, w := watchStall(ctx, b.stall)
	body, _, _, err := core.GetObject(isContent(ctx), b.bucket, b.name(key), o)
	if err != nil {
		err = b.explain("read", key, w.cause(err))
		w.end()
		return nil, err
	}
	return &content{body: body, bucket: b, key: key, watch: w}, nil
}

// ReadSmall returns the content of an object. It returns an error if the content is larger than the limit.
func (b *Bucket) ReadSmall(ctx context.Context, key string, limit int64) ([]byte, error) {
	r, err := b.Read(ctx, key, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(raw)) > limit:
		return nil, fmt.Errorf("the object %q is larger than the maximum of %d bytes", key, limit)
	}
	return raw, nil
}

// Put writes a small object. It replaces an existing one.
func (b *Bucket) Put(ctx context.Context, key string, raw []byte) error {
	return b.putSmall(ctx, key, raw, minio.PutObjectOptions{})
}

// PutOnce writes a small object that must not exist yet. It returns an Exists error if it exists, and an Unsupported
// error if the store does not support this condition.
func (b *Bucket) PutOnce(ctx context.Context, key string, raw []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return b.putSmall(ctx, key, raw, o)
}

// Delete deletes an object. It returns no error if the object does not exist.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err == nil {
		err = core.RemoveObject(ctx, b.bucket, b.name(key), minio.RemoveObjectOptions{})
	}
	err = b.explain("delete", key, err)
	if Is(err, NotFound) {
		return nil
	}
	return err
}

// List returns all objects below a prefix. It returns an error if there are more than the limit.
func (b *Bucket) List(ctx context.Context, dir string, limit int) ([]Object, error) {
	out, hasMore, err := b.Find(ctx, dir, limit, func(string) bool { return true })
	if hasMore {
		return nil, fmt.Errorf("there are more than %d objects below %q", limit, b.name(dir))
	}
	return out, err
}

// Prefixes returns the names of the prefixes directly below a prefix. It returns an error if there are more than the
// limit.
func (b *Bucket) Prefixes(ctx context.Context, dir string, limit int) ([]string, error) {
	core, err := b.connect(ctx)
	if err != nil {
		return nil, b.explain("list", dir, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	found := core.Client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.name(dir) + "/"})
	defer endListing(cancel, found)
	out := []string{}
	for o := range found {
		if o.Err != nil {
			return nil, b.explain("list", dir, o.Err)
		}
		name, isDirectory := strings.CutSuffix(strings.TrimPrefix(o.Key, b.name(dir)+"/"), "/")
		switch {
		case !isDirectory:
			continue
		case len(out) == limit:
			return nil, fmt.Errorf("there are more than %d prefixes below %q", limit, b.name(dir))
		}
		out = append(out, name)
	}
	return out, ctx.Err()
}

// Find returns the first objects below a prefix for which isWanted returns true, and reports whether there are more
// of them. It skips any number of other objects.
func (b *Bucket) Find(ctx context.Context, dir string, limit int, isWanted func(key string) bool) (out []Object,
	hasMore bool, err error) {
	core, err := b.connect(ctx)
	if err != nil {
		return nil, false, b.explain("list", dir, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	found := core.Client.ListObjects(ctx, b.bucket,
		minio.ListObjectsOptions{Prefix: b.name(dir) + "/", Recursive: true})
	defer endListing(cancel, found)
	out = []Object{}
	for o := range found {
		if o.Err != nil {
			return nil, false, b.explain("list", dir, o.Err)
		}
		key, ok := b.key(o.Key)
		switch {
		case !ok:
			return nil, false, fmt.Errorf("the store listed %.200q, which is not below %q", o.Key, b.name(dir))
		case !isWanted(key):
			continue
		case len(out) == limit:
			return out, true, nil
		}
		out = append(out, Object{Key: key, Size: o.Size})
	}
	return out, false, ctx.Err()
}

func (b *Bucket) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	core, err := b.connect(ctx)
	if err != nil {
		return minio.ObjectInfo{}, b.explain("get", key, err)
	}
	info, err := core.StatObject(ctx, b.bucket, b.name(key), minio.StatObjectOptions{})
	return info, b.explain("get", key, err)
}

// name returns the full name of an object in the bucket. Keys are relative to the prefix.
func (b *Bucket) name(key string) string { return path.Join(b.prefix, key) }

func (b *Bucket) putSmall(ctx context.Context, key string, raw []byte, o minio.PutObjectOptions) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	core, err := b.connect(ctx)
	if err == nil {
		_, err = core.PutObject(ctx, b.bucket, b.name(key), bytes.NewReader(raw), int64(len(raw)), ContentMD5(raw), "", o)
	}
	return b.explain("write", key, err)
}

// ContentMD5 returns the value of the header Content-MD5 for an upload. A bucket with Object Lock refuses an upload
// without a checksum, and every store supports this one. The documentation of PutObject of the S3 API says: "The
// Content-MD5 or x-amz-sdk-checksum-algorithm header is required".
func ContentMD5(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // The S3 API requires MD5. Archives have a SHA-256 checksum.
	return base64.StdEncoding.EncodeToString(sum[:])
}

// endListing cancels a listing, and drains its channel so that the sender can finish.
func endListing[T any](cancel context.CancelFunc, found <-chan T) {
	cancel()
	for range found { //nolint:revive // The channel must be drained.
	}
}

// key returns the key for an object's name in the bucket, or false if the name is not below the prefix.
func (b *Bucket) key(name string) (string, bool) {
	if b.prefix == "" {
		return name, true
	}
	return strings.CutPrefix(name, b.prefix+"/")
}

// A content reads the content of an object. net/http checks its length.
type content struct {
	body   io.ReadCloser
	bucket *Bucket
	key    string
	watch  *stall
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.body.Read(p)
	c.watch.moved()
	if err == io.EOF {
		return n, err
	}
	return n, c.bucket.explain("read", c.key, c.watch.cause(err))
}

// Close closes the response and stops its timeout.
func (c *content) Close() error {
	c.watch.end()
	return c.body.Close()
}

// bounded limits the size of responses, so that they fit into memory. It does not limit the content of objects.
type bounded struct{ next http.RoundTripper }

type contentKey struct{}

// isContent returns a context that marks a request as a request for an object's content.
func isContent(ctx context.Context) context.Context {
	return context.WithValue(ctx, contentKey{}, true)
}

// RoundTrip sends a request, and limits the size of its response.
func (t bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	start := time.Now()
	answer, err := t.next.RoundTrip(r)
	logRequest(r, answer, err, time.Since(start))
	if err != nil || r.Context().Value(contentKey{}) != nil && answer.StatusCode < http.StatusMultipleChoices {
		return answer, err
	}
	answer.Body = http.MaxBytesReader(nil, answer.Body, maxAnswer)
	if answer.StatusCode == http.StatusOK && r.URL.Query().Has("list-type") {
		if err := checkList(answer); err != nil {
			_ = answer.Body.Close() // Nothing was written.
			return nil, err
		}
	}
	return answer, nil
}

// logRequest logs a request to a store. The path contains the bucket and the object. The credentials are in a header,
// which is not logged.
func logRequest(r *http.Request, answer *http.Response, err error, took time.Duration) {
	status := 0
	if answer != nil {
		status = answer.StatusCode
	}
	log.FromContext(r.Context()).V(1).Info("Sent a request to the store", "method", r.Method, "host", r.URL.Host, "path",
		r.URL.Path, "status", status, "took", took, "error", err)
}

// checkList returns an error if a response is not a list. minio-go reads any other XML as an empty list.
func checkList(answer *http.Response) error {
	in := bufio.NewReader(answer.Body)
	begin, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Contains(begin, []byte("<ListBucketResult")) {
		return errors.New("the response is not a list of objects")
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{in, answer.Body}
	return nil
}

// splitKey returns the prefix and the last part of a key.
func splitKey(key string) (dir, name string) {
	dir, name = path.Split(key)
	return strings.TrimSuffix(dir, "/"), name
}
