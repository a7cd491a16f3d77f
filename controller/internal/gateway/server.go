package gateway

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // Only md5.Size is used.
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/go-logr/logr"

	"github.com/crossplane-mysql/crossplane-mysql/apis/redact"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/store"
)

const (
	// maxPart is the maximum size of a request's body in bytes.
	maxPart = 64 << 20
	// maxList is the maximum size of the list of an upload's parts in bytes.
	maxList = 2 << 20
	// maxHeader is the maximum size in bytes of an encrypted object's header. With 64 recipients, a header is about 9
	// KiB long.
	maxHeader = 64 << 10
)

// ManifestName is the name of the object next to an archive that marks the archive as verified. After that, Jobs may
// write nothing below its prefix.
const ManifestName = "manifest.json"

// A Server is the HTTP handler of the backup gateway, which gives Jobs access to stores.
type Server struct {
	redact.All

	stores *Stores
	log    *slog.Logger
	places *places
	conns  *connections
	// sending and taking contain the minimum transfer rates for the bodies of requests and of responses.
	sending, taking pace
}

// NewServer returns a server for the stores.
func NewServer(s *Stores, log *slog.Logger) *Server {
	return &Server{stores: s, log: log, places: newPlaces(maxAtOnce), conns: newConnections(),
		sending: pace{grace: grace, rate: leastRate}, taking: pace{grace: takeGrace, rate: leastRate}}
}

// A request is an authorized request of a Job.
type request struct {
	*http.Request
	openStore

	grant Grant
	key   string
	body  http.ResponseWriter
	// sending and taking enforce the minimum transfer rates for the bodies of this request and of its response.
	sending, taking pace
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		return // The gateway is healthy: the status is 200.
	}
	start := time.Now()
	q, err := s.admit(w, r)
	if err == nil {
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "Admitted a request", slog.String("method", r.Method),
			slog.String("store", q.grant.Store), slog.String("folder", q.grant.Prefix), slog.String("object", q.grant.Object))
		err = s.conns.claim(r.Context(), q.grant.namespace())
	}
	if err == nil {
		err = s.serveInTurn(r.Context(), q)
	}
	s.logRequest(q, r, time.Since(start), err)
	switch {
	case errors.Is(err, errCutOff):
		panic(http.ErrAbortHandler) // A response that has started can only report an error by a broken connection.
	case err != nil:
		sendError(w, err)
	}
}

// serveInTurn limits the number of concurrent requests. It waits until the request may be served, and then serves it.
func (s *Server) serveInTurn(ctx context.Context, q *request) error {
	free, err := s.places.take(ctx, q.grant)
	if err != nil {
		return err
	}
	defer free()
	return q.serve(logr.NewContext(ctx, logr.FromSlogHandler(s.log.Handler()).WithValues("store", q.grant.Store)))
}

func (s *Server) logRequest(q *request, r *http.Request, took time.Duration, err error) {
	line := []slog.Attr{slog.String("method", r.Method), slog.Duration("took", took)}
	if q != nil {
		line = append(line, slog.String("store", q.grant.Store),
			slog.String("key", v1.PrintableText(q.key, v1.MaxForeignText)))
	}
	if n, nerr := strconv.Atoi(r.URL.Query().Get("part")); nerr == nil {
		line = append(line, slog.Int("part", n))
	}
	ctx := context.WithoutCancel(r.Context())
	switch no := new(refusal); {
	case errors.As(err, &no):
		s.log.LogAttrs(ctx, slog.LevelWarn, "Refused a request",
			append(line, slog.Int("status", no.status), slog.Any("error", err))...)
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "Failed to serve a request", append(line, slog.Any("error", err))...)
	default:
		s.log.LogAttrs(ctx, slog.LevelInfo, "Served a request", line...)
	}
}

// A Job or a namespace gets these errors if it uses more than its share of the gateway.
var (
	errManyOfGrant     = refuse(http.StatusTooManyRequests, "there are already %d requests with this token", maxOfGrant)
	errManyOfNamespace = refuse(http.StatusTooManyRequests,
		"the Jobs of this namespace already use their share of the gateway's capacity: retry later")
	errManyConnections = refuse(http.StatusTooManyRequests, "the Jobs of this namespace already have %d connections",
		maxConnsOfNamespace)
)

// errCutOff is the error for a response that is incomplete.
var errCutOff = errors.New("the response was interrupted")

// A refusal is an error response of the gateway itself.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return r.reason }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// admit checks the token of a request, and returns the request if the token allows it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (*request, error) {
	o, err := s.stores.read()
	if err != nil {
		s.log.Error("Cannot read the settings from the controller", slog.Any("error", err))
		return nil, refuse(http.StatusServiceUnavailable, "the gateway has no valid settings")
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, refuse(http.StatusUnauthorized, "the request has no token")
	}
	g, err := readGrant(token, o.signers, s.stores.now)
	if err != nil {
		return nil, refuse(http.StatusUnauthorized, "the token is not valid: %s",
			v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	target, ok := o.stores[g.Store]
	if !ok {
		// The token may be newer than the settings, because the kubelet updates them with a delay.
		return nil, refuse(http.StatusServiceUnavailable, "the gateway has no settings for BackupStore %.100q yet", g.Store)
	}
	return &request{Request: r, openStore: target, grant: g, key: keyOf(r.URL.EscapedPath()), body: w, sending: s.sending,
		taking: s.taking}, nil
}

// keyOf returns the key in the path of a request. It does not unescape the path, because keys contain no characters
// that must be escaped.
func keyOf(escaped string) string {
	_, key, _ := strings.Cut(strings.TrimPrefix(escaped, "/v1/"), "/")
	return key
}

func (q *request) serve(ctx context.Context) error {
	query := q.URL.Query()
	id, part := query.Get("upload"), query.Get("part")
	place, _, _ := strings.Cut(strings.TrimPrefix(q.URL.Path, "/v1/"), "/")
	kind := q.Method + " " + place
	if id != "" && !isUploadID(id) {
		return refuse(http.StatusBadRequest, "this is not a valid upload ID")
	}
	switch {
	case kind == "GET objects" && q.grant.mayRead(q.key):
		return q.sendObject(ctx)
	case kind == "GET keys" && q.grant.mayRead(q.key) && q.grant.Object != "":
		return q.sendFileKey(ctx)
	case place != "objects" || !q.grant.mayWrite(q.key):
	case q.Method == http.MethodPost && query.Has("uploads"):
		return q.beginUpload(ctx)
	case q.Method == http.MethodPut && id != "" && part != "":
		return q.takePart(ctx, id, part)
	case q.Method == http.MethodPost && id != "":
		return q.completeUpload(ctx, id)
	case q.Method == http.MethodDelete && id != "":
		return q.AbortUpload(ctx, q.key, id)
	}
	return refuse(http.StatusForbidden, "the token does not permit this request")
}

func (q *request) sendObject(ctx context.Context) error {
	from := int64(0)
	if h := q.Header.Get("Range"); h != "" {
		n, err := fmt.Sscanf(h, "bytes=%d-", &from)
		if n != 1 || err != nil || from < 0 || h != fmt.Sprintf("bytes=%d-", from) {
			return refuse(http.StatusRequestedRangeNotSatisfiable, "the range must have the form bytes=N-")
		}
	}
	o, err := q.Stat(ctx, q.key)
	if err != nil {
		return err
	}
	if from > 0 && from >= o.Size {
		return refuse(http.StatusRequestedRangeNotSatisfiable, "the object is only %d bytes long", o.Size)
	}
	r, err := q.Read(ctx, q.key, from)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	q.body.Header().Set("Content-Length", strconv.FormatInt(o.Size-from, 10))
	if from > 0 {
		q.body.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, o.Size-1, o.Size))
		q.body.WriteHeader(http.StatusPartialContent)
	}
	if _, err := io.CopyN(&patient{writer: q.body, control: http.NewResponseController(q.body), pace: q.taking}, r,
		o.Size-from); err != nil {
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return nil
}

// sendFileKey sends the file key of an encrypted object. The key decrypts only this object.
func (q *request) sendFileKey(ctx context.Context) error {
	if len(q.identities) == 0 {
		return refuse(http.StatusConflict,
			"BackupStore %q has no identity in this cluster, which is needed to decrypt its backups: store it in the Secret "+
				"of keySecretRef, under the key identity", q.grant.Store)
	}
	r, err := q.Read(ctx, q.key, 0)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	header, err := age.ExtractHeader(io.LimitReader(r, maxHeader))
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "the object is not encrypted, or it is damaged: %s",
			v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	key, err := age.DecryptHeader(header, q.identities...)
	if err != nil {
		return refuse(http.StatusConflict, "the identity of BackupStore %q cannot decrypt it: %s", q.grant.Store,
			v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	_, err = q.body.Write(key) //nolint:gosec // The response is sixteen bytes for a program, and not a page.
	return err
}

// checkOpen returns an error if the backup below the prefix is verified, or the object already exists.
func (q *request) checkOpen(ctx context.Context) error {
	for _, key := range []string{path.Join(path.Dir(q.key), ManifestName), q.key} {
		_, err := q.Stat(ctx, key)
		switch {
		case err == nil:
			return refuse(http.StatusConflict, "%s already exists: it is not overwritten, and nothing is written "+
				"next to it", path.Base(key))
		case !store.Is(err, store.NotFound):
			return err
		}
	}
	return nil
}

// checkUnproven returns an error if the backup below the prefix is verified. From then on, nothing may be written
// below the prefix.
func (q *request) checkUnproven(ctx context.Context) error {
	_, err := q.Stat(ctx, path.Join(path.Dir(q.key), ManifestName))
	switch {
	case err == nil:
		return refuse(http.StatusConflict, "the backup is already verified: nothing more is written to its prefix")
	case !store.Is(err, store.NotFound):
		return err
	}
	return nil
}

// A begunUpload is the response to the start of an upload.
type begunUpload struct {
	Upload string `json:"upload"`
}

func (q *request) beginUpload(ctx context.Context) error {
	if err := q.checkOpen(ctx); err != nil {
		return err
	}
	id, err := q.BeginUpload(ctx, q.key)
	if err != nil {
		return err
	}
	return json.NewEncoder(q.body).Encode(begunUpload{id})
}

func (q *request) takePart(ctx context.Context, id, part string) error {
	n, err := strconv.Atoi(part)
	size := q.ContentLength
	switch {
	case err != nil || n < 1 || n > store.MaxParts:
		return refuse(http.StatusBadRequest, "the part number must be from 1 to %d", store.MaxParts)
	case size < 0 || size > maxPart:
		return refuse(http.StatusRequestEntityTooLarge, "a part must have a Content-Length of at most %d bytes", maxPart)
	}
	if sum := q.Header.Get(headerMD5); sum != "" {
		if raw, err := base64.StdEncoding.DecodeString(sum); err != nil || len(raw) != md5.Size {
			return refuse(http.StatusBadRequest, "%s is not a checksum", headerMD5)
		}
	}
	if err := q.checkUnproven(ctx); err != nil {
		return err
	}
	body := &patientReader{from: io.LimitReader(q.Body, size), control: http.NewResponseController(q.body),
		pace: q.sending}
	p, err := q.PutPart(ctx, q.key, id, n, body, size, q.Header.Get(headerMD5))
	if err != nil {
		return err
	}
	return json.NewEncoder(q.body).Encode(p)
}

// A completeUpload is the request that creates an object from its parts.
type completeUpload struct {
	Parts parts `json:"parts"`
	Size  int64 `json:"size"`
}

// parts are the parts of an upload. Their number is checked while they are decoded. An empty part needs three bytes
// of JSON, and a hundred times as much memory.
type parts []store.Part

var errManyParts = fmt.Errorf("an upload can have at most %d parts", store.MaxParts)

// UnmarshalJSON decodes the parts one by one. It returns an error if there are too many.
func (p *parts) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil { // The opening bracket.
		return err
	}
	for d.More() {
		if len(*p) == store.MaxParts {
			return errManyParts
		}
		var one store.Part
		if err := d.Decode(&one); err != nil {
			return err
		}
		*p = append(*p, one)
	}
	return nil
}

func (q *request) completeUpload(ctx context.Context, id string) error {
	var c completeUpload
	body := &patientReader{from: io.LimitReader(q.Body, maxList), control: http.NewResponseController(q.body),
		pace: q.sending}
	if err := json.NewDecoder(body).Decode(&c); err != nil {
		return refuse(http.StatusBadRequest, "the list of parts cannot be read, or has more than %d parts", store.MaxParts)
	}
	err := q.checkOpen(ctx)
	if err == nil {
		err = q.CompleteUpload(ctx, q.key, id, c.Parts)
	}
	// If the object exists with the right size, an earlier attempt has succeeded, and its response was lost. The Job
	// verifies the content later.
	if no := new(refusal); errors.As(err, &no) || store.Is(err, store.NoUpload) || store.Is(err, store.Exists) ||
		store.Is(err, store.NotFound) {
		if o, serr := q.Stat(ctx, q.key); serr == nil && o.Size == c.Size {
			return nil
		}
	}
	return err
}

// statuses maps kinds of store errors to HTTP statuses. Other kinds get the status 502, and the Job retries.
var statuses = map[store.Kind]int{
	store.NotFound: http.StatusNotFound, store.NoUpload: http.StatusGone, store.Exists: http.StatusConflict,
	store.Full: http.StatusInsufficientStorage,
	store.Busy: http.StatusServiceUnavailable,
}

// A failure is the body of an error response.
type failure struct {
	Kind  store.Kind `json:"kind,omitempty"`
	Error string     `json:"error"`
}

func sendError(w http.ResponseWriter, err error) {
	f, status := failure{Kind: store.KindOf(err), Error: err.Error()}, http.StatusBadGateway
	if s, ok := statuses[f.Kind]; ok {
		status = s
	}
	if errors.Is(err, errSlow) {
		f.Kind, status = "", http.StatusRequestTimeout
	}
	if r := new(refusal); errors.As(err, &r) {
		f.Kind, status = "", r.status
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Connection", "close") // The gateway does not read the rest of the request.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f) //nolint:errchkjson // The Job may no longer be connected.
}
