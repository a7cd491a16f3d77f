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

// headerMD5 is what the store is to compare a part with.
const headerMD5 = "Content-MD5"

// Files in the folder that a Job is given, from a Secret.
const (
	// URLFile has the gateway's URL, CAFile who has signed its certificate, as PEM, and TokenFile the grant.
	URLFile   = "url"
	CAFile    = "ca.crt"
	TokenFile = "token"
)

const (
	// dialTimeout is how long a connection may take to begin, and answerTimeout how long the gateway may take to answer: it asks
	// the store, which takes its time to put parts together.
	dialTimeout   = 15 * time.Second
	answerTimeout = 12 * time.Minute
	// giveUp is how long one request is tried. Then the Job fails with what was said, and is tried again as a whole.
	giveUp = 5 * time.Minute
	// firstPause and longestPause between two tries.
	firstPause   = 200 * time.Millisecond
	longestPause = 10 * time.Second
	// maxFailure in bytes of an answer that is no object's.
	maxFailure = 1 << 20
)

// A Client asks a gateway for a Job.
type Client struct {
	folder string
	url    *url.URL
	http   *http.Client
	output io.Writer
	giveUp time.Duration
}

// NewClient by the files in a folder. Output takes a line for what is tried again.
func NewClient(folder string, output io.Writer) (*Client, error) {
	raw, err := os.ReadFile(filepath.Join(folder, URLFile)) //nolint:gosec // The caller says which folder.
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(string(raw)))
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%.200q is no gateway's URL", raw)
	}
	ca, err := os.ReadFile(filepath.Join(folder, CAFile)) //nolint:gosec // As above.
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, errors.New("the gateway's CA is no certificate in PEM")
	}
	t := &http.Transport{
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, TLSHandshakeTimeout: dialTimeout, ResponseHeaderTimeout: answerTimeout,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: pool}, DisableCompression: true, MaxIdleConnsPerHost: sendAtOnce,
	}
	return &Client{folder: folder, url: u, http: &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, output: output, giveUp: giveUp}, nil
}

// A serverError is what a gateway has refused, or could not do.
type serverError struct {
	Status int
	// Kind of what the store has said; empty where it is the gateway's own.
	Kind store.Kind
	Text string
}

func (e *serverError) Error() string { return e.Text }

// Unwrap says of an object that is not there that it does not exist.
func (e *serverError) Unwrap() error {
	if e.Status == http.StatusNotFound {
		return fs.ErrNotExist
	}
	return nil
}

// passes is true of what may be otherwise in a moment, without anybody's help.
func passes(err error) bool {
	e := new(serverError)
	if !errors.As(err, &e) {
		return !errors.Is(err, context.Canceled) // The network's.
	}
	switch e.Status {
	case http.StatusUnauthorized: // The token is renewed.
		return true
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return e.Kind == "" || e.Kind == store.Busy || e.Kind == store.Unreachable || e.Kind == store.Stopped || e.Kind == store.Failed
	}
	return false
}

// A call of the gateway, which can be made again.
type call struct {
	method, place, key string
	query              url.Values
	body               []byte
	from               int64
	// md5 of the body, which the gateway passes on to the store.
	md5 string
	// whole calls that have begun are not cut off: what is on its way to the store would arrive after the end of its upload.
	whole bool
	// take the answer's body. Where it fails, the call is made again.
	take func(io.Reader) error
}

// FileKey of an encrypted object, by which that one can be decrypted.
func (c *Client) FileKey(ctx context.Context, key string) (out []byte, err error) {
	err = c.do(ctx, call{method: http.MethodGet, place: "keys", key: key, take: func(r io.Reader) error {
		var rerr error
		out, rerr = io.ReadAll(r)
		return rerr
	}})
	return out, err
}

// Open an object to read it, to its end, also where the way to it breaks on the way.
func (c *Client) Open(ctx context.Context, key string) (io.ReadCloser, error) {
	r := &objectReader{client: c, ctx: ctx, key: key}
	return r, r.resume()
}

// do a call until it is answered.
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

// takeJSON of an answer.
func takeJSON(to any) func(io.Reader) error {
	return func(r io.Reader) error { return json.NewDecoder(r).Decode(to) }
}

// retry what passes, for a while after it last went well.
func (c *Client) retry(ctx context.Context, what string, try func() error) error {
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
			return fmt.Errorf("the store's gateway was tried for %s: %w", c.giveUp, err)
		}
		fmt.Fprintf(c.output, "%s is tried again in %s: %s\n", what, pause, v1.PrintableText(err.Error(), v1.MaxForeignText)) //nolint:errcheck // A lost line is no reason to fail.
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// send a call once, and return the answer's body.
func (c *Client) send(ctx context.Context, k call) (io.ReadCloser, error) {
	token, err := os.ReadFile(filepath.Join(c.folder, TokenFile)) // Another one, where it was renewed.
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
		f.Error = "the gateway answers " + answer.Status
	}
	return nil, &serverError{Status: answer.StatusCode, Kind: f.Kind, Text: v1.PrintableText(f.Error, v1.MaxForeignText)}
}

type objectReader struct {
	client *Client
	ctx    context.Context //nolint:containedctx // It is the reader's own, as that of a request.
	key    string
	at     int64
	body   io.ReadCloser
	// stuck is since when nothing has come, however often it was begun anew; zero while something comes.
	stuck time.Time
}

func (r *objectReader) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.at += int64(n)
		switch {
		case n > 0:
			r.stuck = time.Time{}
			return n, nil
		case err == nil, err == io.EOF:
			return 0, err
		case r.ctx.Err() != nil:
			return 0, context.Cause(r.ctx)
		case r.stuck.IsZero():
			r.stuck = time.Now()
		case time.Since(r.stuck) > r.client.giveUp:
			return 0, fmt.Errorf("nothing comes from byte %d on: %w", r.at, err)
		default:
			time.Sleep(firstPause)
		}
		_ = r.body.Close() // It is broken.
		if err := r.resume(); err != nil {
			return 0, err
		}
	}
}

// Close ends the reading, wherever it is.
func (r *objectReader) Close() error { return r.body.Close() }

// resume where it broke off.
func (r *objectReader) resume() error {
	return r.client.retry(r.ctx, fmt.Sprintf("%s from byte %d", r.key, r.at), func() (err error) {
		r.body, err = r.client.send(r.ctx, call{method: http.MethodGet, place: "objects", key: r.key, from: r.at})
		return err
	})
}

// upload and part are the names of those in a query.
func (c *Client) beginUpload(ctx context.Context, key string) (string, error) {
	var b begunUpload
	err := c.do(ctx, call{method: http.MethodPost, place: "objects", key: key, query: url.Values{"uploads": {""}}, take: takeJSON(&b)})
	return b.Upload, err
}

func (c *Client) sendPart(ctx context.Context, key, id string, number int, raw []byte) (store.Part, error) {
	var p store.Part
	q := url.Values{"upload": {id}, "part": {strconv.Itoa(number)}}
	err := c.do(ctx, call{method: http.MethodPut, place: "objects", key: key, query: q, body: raw, md5: store.ContentMD5(raw), whole: true, take: takeJSON(&p)})
	return p, err
}

func (c *Client) completeUpload(ctx context.Context, key, id string, all completeUpload) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return c.do(ctx, call{method: http.MethodPost, place: "objects", key: key, query: url.Values{"upload": {id}}, body: raw})
}

func (c *Client) abortUpload(ctx context.Context, key, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, place: "objects", key: key, query: url.Values{"upload": {id}}})
}
