package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

// headerMD5 is the header with the checksum of a part. The store compares it with the content.
const headerMD5 = "Content-MD5"

// A Job gets these files from a Secret.
const (
	// URLFile contains the gateway's URL, CAFile the certificate authority of its certificate as PEM, and TokenFile
	// the grant.
	URLFile   = "url"
	CAFile    = "ca.crt"
	TokenFile = "token"
)

const (
	// dialTimeout is the timeout for a connection. answerTimeout is the timeout for a response of the gateway. It is
	// long because the store needs time to combine the parts of an object.
	dialTimeout   = 15 * time.Second
	answerTimeout = 12 * time.Minute
	// giveUp is the maximum time for the retries of one request. After that, the Job fails with the last error, and
	// Kubernetes or the controller retries the whole Job.
	giveUp = 5 * time.Minute
	// firstPause and longestPause are the shortest and the longest delay between two attempts.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
	// maxFailure is the maximum size in bytes of a response other than an object's content.
	maxFailure = 1 << 20
)

// A Client sends a Job's requests to a gateway.
type Client struct {
	dir    string
	url    *url.URL
	http   *http.Client
	output io.Writer
	giveUp time.Duration
}

// NewClient returns a client for the gateway whose URL, CA and token are in a directory. It writes a line to output
// for each retry.
func NewClient(dir string, output io.Writer) (*Client, error) {
	raw, err := os.ReadFile(filepath.Join(dir, URLFile)) //nolint:gosec // The caller chooses the directory.
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(string(raw)))
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%.200q is not the URL of a gateway", raw)
	}
	ca, err := os.ReadFile(filepath.Join(dir, CAFile)) //nolint:gosec // As above.
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the gateway's CA is not a PEM certificate")
	}
	t := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout,
		ResponseHeaderTimeout: answerTimeout,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, DisableCompression: true,
		MaxIdleConnsPerHost: sendAtOnce,
	}
	return &Client{dir: dir, url: u,
		http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}, output: output, giveUp: giveUp}, nil
}

// A serverError is an error response of the gateway.
type serverError struct {
	Status int
	// Kind is the kind of the store error. It is empty for an error of the gateway itself.
	Kind store.Kind
	Text string
}

func (e *serverError) Error() string { return e.Text }

// Unwrap returns fs.ErrNotExist for an object that does not exist.
func (e *serverError) Unwrap() error {
	if e.Status == http.StatusNotFound {
		return fs.ErrNotExist
	}
	return nil
}

// passes reports whether an error is temporary, so that a retry may succeed.
func passes(err error) bool {
	e := new(serverError)
	if !errors.As(err, &e) {
		return !errors.Is(err, context.Canceled) // Other errors are network errors.
	}
	switch e.Status {
	case http.StatusUnauthorized: // The kubelet renews the token.
		return true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInternalServerError,
		http.StatusTooManyRequests, http.StatusRequestTimeout:
		return e.Kind == "" || e.Kind == store.Busy || e.Kind == store.Unreachable || e.Kind == store.Stopped ||
			e.Kind == store.Failed
	}
	return false
}

// A call is a request of a Job to the gateway. The client can repeat it.
type call struct {
	method, place, key string
	query              url.Values
	body               []byte
	from               int64
	// md5 is the checksum of the body. The gateway passes it on to the store.
	md5 string
	// whole is true for a call that must not be interrupted once it has started. Otherwise its body could reach the
	// store after the upload was completed or aborted.
	whole bool
	// take reads the body of the response. If it fails, the call is repeated.
	take func(io.Reader) error
}

// FileKey returns the file key of an encrypted object. The key decrypts only this object.
func (c *Client) FileKey(ctx context.Context, key string) (out []byte, err error) {
	err = c.do(ctx, call{method: http.MethodGet, place: "keys", key: key, take: func(r io.Reader) error {
		var rerr error
		out, rerr = io.ReadAll(r)
		return rerr
	}})
	return out, err
}

// Open returns a reader for an object. If a connection breaks, the reader reconnects and continues.
func (c *Client) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r := &objectReader{client: c, ctx: ctx, key: key}
	return r, r.resume()
}

// do sends a call, and repeats it after temporary errors.
func (c *Client) do(ctx context.Context, k call) error {
	return c.retry(ctx, fmt.Sprintf("%s %s", k.method, k.key), func() error {
		r, err := c.send(ctx, k)
		if err != nil {
			return err
		}
		defer r.Close() //nolint:errcheck // Nothing was written.
		if k.take == nil {
			return nil
		}
		return k.take(io.LimitReader(r, maxFailure))
	})
}

// takeJSON returns a take function that decodes a JSON response.
func takeJSON(target any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(target) }
}

// retry repeats a function after temporary errors, for up to giveUp.
func (c *Client) retry(ctx context.Context, subject string, try func() error) error {
	end, pause := time.Now().Add(c.giveUp), firstPause
	for {
		err := try()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !passes(err):
			return err
		case time.Now().After(end):
			return fmt.Errorf("requests to the gateway have failed for %s: %w", c.giveUp, err)
		}
		fmt.Fprintf(c.output, "Retrying %s in %s: %s\n", subject, pause, v1.PrintableText(err.Error(), v1.MaxForeignText)) //nolint:errcheck // A lost line is no reason to fail.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// send sends a call once, and returns the body of the response.
func (c *Client) send(ctx context.Context, k call) (io.ReadCloser, error) {
	token, err := os.ReadFile(filepath.Join(c.dir, TokenFile)) // The token may have been renewed.
	if err != nil {
		return nil, err
	}
	u := c.url.JoinPath("v1", k.place, k.key)
	u.RawQuery = k.query.Encode()
	if k.whole {
		ctx = context.WithoutCancel(ctx)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, u.String(), bytes.NewReader(k.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	if k.md5 != "" {
		r.Header.Set(headerMD5, k.md5)
	}
	if k.from > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", k.from))
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK && k.from == 0 || answer.StatusCode == http.StatusPartialContent && k.from > 0 {
		return answer.Body, nil
	}
	defer answer.Body.Close() //nolint:errcheck // Nothing was written.
	f := failure{Error: answer.Status}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxFailure)).Decode(&f); err != nil {
		f.Error = "the gateway responded with " + answer.Status
	}
	return nil, &serverError{Status: answer.StatusCode, Kind: f.Kind, Text: v1.PrintableText(f.Error, v1.MaxForeignText)}
}

type objectReader struct {
	client *Client
	ctx    context.Context //nolint:containedctx // The reader is used for one request only.
	key    string
	offset int64
	body   io.ReadCloser
	// stalledSince is the time of the last byte, even across retries. It is zero while data arrives.
	stalledSince time.Time
}

func (r *objectReader) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.offset += int64(n)
		switch {
		case n > 0:
			r.stalledSince = time.Time{}
			return n, nil
		case err == nil, err == io.EOF:
			return 0, err
		case r.ctx.Err() != nil:
			return 0, context.Cause(r.ctx)
		case r.stalledSince.IsZero():
			r.stalledSince = time.Now()
		case time.Since(r.stalledSince) > r.client.giveUp:
			return 0, fmt.Errorf("no more data was received from byte %d on: %w", r.offset, err)
		default:
			time.Sleep(firstPause)
		}
		_ = r.body.Close() // The connection is broken.
		if err := r.resume(); err != nil {
			return 0, err
		}
	}
}

// Close closes the current response.
func (r *objectReader) Close() error { return r.body.Close() }

// resume opens the object at the current offset.
func (r *objectReader) resume() error {
	return r.client.retry(r.ctx, fmt.Sprintf("%s from byte %d", r.key, r.offset), func() (err error) {
		r.body, err = r.client.send(r.ctx, call{method: http.MethodGet, place: "objects", key: r.key, from: r.offset})
		return err
	})
}

// beginUpload starts an upload in parts, and returns its ID. Later requests contain the ID as upload and the number
// of the part as part.
func (c *Client) beginUpload(ctx context.Context, key string) (string, error) {
	var b begunUpload
	err := c.do(ctx, call{method: http.MethodPost, place: "objects", key: key, query: url.Values{"uploads": {""}},
		take: takeJSON(&b)})
	return b.Upload, err
}

func (c *Client) sendPart(ctx context.Context, key, id string, number int, raw []byte) (store.Part, error) {
	var p store.Part
	q := url.Values{"upload": {id}, "part": {strconv.Itoa(number)}}
	err := c.do(ctx, call{method: http.MethodPut, place: "objects", key: key, query: q, body: raw,
		md5: store.ContentMD5(raw), whole: true, take: takeJSON(&p)})
	return p, err
}

func (c *Client) completeUpload(ctx context.Context, key, id string, all completeUpload) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return c.do(ctx, call{method: http.MethodPost, place: "objects", key: key, query: url.Values{"upload": {id}},
		body: raw})
}

func (c *Client) abortUpload(ctx context.Context, key, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, place: "objects", key: key, query: url.Values{"upload": {id}}})
}
