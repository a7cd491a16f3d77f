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
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
)

const (
	// dialTimeout is how long a connection may take to begin, and answerTimeout how long the
	// store may think before it answers.
	dialTimeout   = 15 * time.Second
	answerTimeout = 2 * time.Minute
	// stallTimeout is the usual one of a Bucket.
	stallTimeout = 2 * time.Minute
	// tries of a request that can be sent again. Whoever asks for more tries again later.
	tries = 4
	// maxAnswer in bytes of an answer that is no object's content: a list of a thousand
	// objects has some 300 KiB.
	maxAnswer = 4 << 20
	// defaultRegion is what stores without regions take, and AWS for its first.
	defaultRegion = "us-east-1"
)

// Settings say which bucket it is, and how to reach it.
type Settings struct {
	redact.Logs

	// Endpoint is a URL such as https://s3.eu-central-1.amazonaws.com. It has no path.
	Endpoint string `json:"endpoint"`
	// Region to sign requests for; empty for us-east-1.
	Region string `json:"region,omitempty"`
	Bucket string `json:"bucket"`
	// Prefix of every object's name, without a slash at its end; empty for none.
	Prefix string `json:"prefix,omitempty"`
	// PathStyle addresses the bucket in the path instead of the host's name.
	PathStyle bool `json:"pathStyle,omitempty"`
	// CA are the certificates, as PEM, of who may have signed the store's; empty for those
	// of the system.
	CA string `json:"ca,omitempty"`

	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
	// SessionToken of credentials that end by themselves; empty for those that do not.
	SessionToken string `json:"sessionToken,omitempty"`
}

// A Bucket holds objects below a prefix. Keys are relative to that.
type Bucket struct {
	core   *minio.Core
	bucket string
	prefix string
	// host of the endpoint, and whether the bucket is in the path instead of the host's name.
	host      string
	pathStyle bool
	// stall is how long nothing may move while an object's content does.
	stall time.Duration
}

// Open a bucket. Nothing is asked of the store.
func Open(s Settings) (*Bucket, error) {
	u, err := url.Parse(s.Endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the endpoint is no URL: %w", err)
	case u.Scheme != "https":
		return nil, fmt.Errorf("the endpoint %q does not begin with https://: backups and what signs for them are not sent in the clear", s.Endpoint)
	case u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil:
		return nil, fmt.Errorf("the endpoint %q is more than https:// and a host: the bucket and the prefix have fields of their own", s.Endpoint)
	}
	transport, err := newTransport(s.CA)
	if err != nil {
		return nil, err
	}
	o := &minio.Options{
		Creds: credentials.NewStaticV4(s.AccessKey, s.SecretKey, s.SessionToken), Secure: true, Region: s.Region, MaxRetries: tries,
		Transport: bounded{transport}, BucketLookup: minio.BucketLookupDNS,
	}
	if s.PathStyle {
		o.BucketLookup = minio.BucketLookupPath
	}
	if o.Region == "" {
		o.Region = defaultRegion // Or the store would be asked for it, which takes one more right.
	}
	core, err := minio.NewCore(u.Host, o)
	if err != nil {
		return nil, fmt.Errorf("the endpoint cannot be used: %w", err)
	}
	return &Bucket{core: core, bucket: s.Bucket, prefix: s.Prefix, host: u.Hostname(), pathStyle: s.PathStyle, stall: stallTimeout}, nil
}

func newTransport(ca string) (*http.Transport, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA bundle has no certificate in PEM")
		}
	}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSClientConfig: config, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		DisableCompression: true, // The bytes that lie there are what is asked for.
	}, nil
}

// MakeBucket makes the bucket itself. Only tests and demonstrations do: platform teams make theirs, with their rules.
func (b *Bucket) MakeBucket(ctx context.Context) error {
	return b.explain("make the bucket", b.bucket, b.core.MakeBucket(ctx, b.bucket, minio.MakeBucketOptions{}))
}

// Stat an object. The error is of NotFound where it is not there.
func (b *Bucket) Stat(ctx context.Context, key string) (Object, error) {
	info, err := b.core.StatObject(ctx, b.bucket, b.name(key), minio.StatObjectOptions{})
	return Object{Key: key, Size: info.Size}, b.explain("look at", key, err)
}

// An Object of a bucket.
type Object struct {
	Key  string
	Size int64
}

// Read an object from a byte on. Who reads closes it, and is told by an error if it stalls or
// is cut off.
func (b *Bucket) Read(ctx context.Context, key string, from int64) (io.ReadCloser, error) {
	var o minio.GetObjectOptions
	if from > 0 {
		if err := o.SetRange(from, 0); err != nil {
			return nil, err
		}
	}
	ctx, w := watchStall(ctx, b.stall)
	body, _, _, err := b.core.GetObject(isContent(ctx), b.bucket, b.name(key), o)
	if err != nil {
		err = b.explain("read", key, w.cause(err))
		w.end()
		return nil, err
	}
	return &content{body: body, bucket: b, key: key, watch: w}, nil
}

// ReadSmall is an object whole, which must not be larger than the limit.
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
		return nil, fmt.Errorf("the object %q is larger than the %d bytes that it may have", key, limit)
	}
	return raw, nil
}

// Put a small object, over whatever is there.
func (b *Bucket) Put(ctx context.Context, key string, raw []byte) error {
	return b.putSmall(ctx, key, raw, minio.PutObjectOptions{})
}

// PutOnce puts a small object where there is none. The error is of Exists where there is one, and
// of Unsupported by a store that does not know how.
func (b *Bucket) PutOnce(ctx context.Context, key string, raw []byte) error {
	var o minio.PutObjectOptions
	o.SetMatchETagExcept("*")
	return b.putSmall(ctx, key, raw, o)
}

// Delete an object. One that is not there is no error.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := b.explain("delete", key, b.core.RemoveObject(ctx, b.bucket, b.name(key), minio.RemoveObjectOptions{}))
	if Is(err, NotFound) {
		return nil
	}
	return err
}

// List the objects below a folder, in it and in those below it; at most so many, and an error where there are more.
func (b *Bucket) List(ctx context.Context, folder string, limit int) ([]Object, error) {
	out, more, err := b.Find(ctx, folder, limit, func(string) bool { return true })
	if more {
		return nil, fmt.Errorf("there are more than %d objects below %q", limit, b.name(folder))
	}
	return out, err
}

// Find objects below a folder that are wanted by their keys: the first of them, and whether there are more. All others are passed over, however
// many they are.
func (b *Bucket) Find(ctx context.Context, folder string, limit int, isWanted func(key string) bool) (out []Object, more bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	found := b.core.Client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.name(folder) + "/", Recursive: true})
	defer endListing(cancel, found)
	out = []Object{}
	for o := range found {
		if o.Err != nil {
			return nil, false, b.explain("list", folder, o.Err)
		}
		key, ok := b.key(o.Key)
		switch {
		case !ok:
			return nil, false, fmt.Errorf("the store lists %.200q below %q", o.Key, b.name(folder))
		case !isWanted(key):
			continue
		case len(out) == limit:
			return out, true, nil
		}
		out = append(out, Object{Key: key, Size: o.Size})
	}
	return out, false, ctx.Err()
}

// name of an object in the bucket.
func (b *Bucket) name(key string) string { return path.Join(b.prefix, key) }

func (b *Bucket) putSmall(ctx context.Context, key string, raw []byte, o minio.PutObjectOptions) error {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := b.core.PutObject(ctx, b.bucket, b.name(key), bytes.NewReader(raw), int64(len(raw)), ContentMD5(raw), "", o)
	return b.explain("write", key, err)
}

// ContentMD5 of an upload. A bucket with Object Lock refuses an upload without a checksum, and this one is known to every store
// (PutObject of the S3 API: "The Content-MD5 or x-amz-sdk-checksum-algorithm header is required").
func ContentMD5(raw []byte) string {
	sum := md5.Sum(raw) //nolint:gosec // It is the API's. What an archive is was summed with SHA-256.
	return base64.StdEncoding.EncodeToString(sum[:])
}

// endListing that nobody waits for any more.
func endListing[T any](cancel context.CancelFunc, found <-chan T) {
	cancel()
	for range found { //nolint:revive // It is at its end when it is empty.
	}
}

// key of an object's name in the bucket; false where it is none below the prefix.
func (b *Bucket) key(name string) (string, bool) {
	if b.prefix == "" {
		return name, true
	}
	return strings.CutPrefix(name, b.prefix+"/")
}

// content of an object. That it is as long as the store has said is seen to by net/http.
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

// Close ends the request, wherever it is.
func (c *content) Close() error {
	c.watch.end()
	return c.body.Close()
}

// bounded answers: all but the content of objects has a size that fits into memory.
type bounded struct{ next http.RoundTripper }

type contentKey struct{}

// isContent marks a request for an object's content.
func isContent(ctx context.Context) context.Context {
	return context.WithValue(ctx, contentKey{}, true)
}

// RoundTrip of a request.
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

// logRequest logs what was sent to a store. The path has the bucket and the object. Credentials are in the header, which is not logged.
func logRequest(r *http.Request, answer *http.Response, err error, took time.Duration) {
	status := 0
	if answer != nil {
		status = answer.StatusCode
	}
	log.FromContext(r.Context()).V(1).Info("Sent a request to the store", "method", r.Method, "host", r.URL.Host, "path", r.URL.Path, "status", status, "took", took, "error", err)
}

// checkList that an answer is one: what is read of any other XML is that there are no objects.
func checkList(answer *http.Response) error {
	in := bufio.NewReader(answer.Body)
	begin, err := in.Peek(512)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if !bytes.Contains(begin, []byte("<ListBucketResult")) {
		return errors.New("the answer is no list of objects")
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{in, answer.Body}
	return nil
}

// splitKey into the folder and the name in it.
func splitKey(key string) (folder, name string) {
	folder, name = path.Split(key)
	return strings.TrimSuffix(folder, "/"), name
}
