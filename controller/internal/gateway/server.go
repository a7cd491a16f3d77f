package gateway

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // For its size.
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
	// maxPart in bytes of one request's body.
	maxPart = 64 << 20
	// maxList in bytes of the list of an upload's parts.
	maxList = 2 << 20
	// maxHeader in bytes of an encrypted object's header: 64 recipients have some 9 KiB.
	maxHeader = 64 << 10
)

// ManifestName is that of the object which says, beside an archive, that it is proven. Nothing is written into its folder
// from then on.
const ManifestName = "manifest.json"

// A Server answers Jobs.
type Server struct {
	redact.All

	stores *Stores
	log    *slog.Logger
	places *places
	conns  *connections
	// sending and taking are the paces of bodies.
	sending, taking pace
}

// NewServer of the stores.
func NewServer(s *Stores, log *slog.Logger) *Server {
	return &Server{stores: s, log: log, places: newPlaces(maxAtOnce), conns: newConnections(), sending: pace{grace: grace, rate: leastRate}, taking: pace{grace: takeGrace, rate: leastRate}}
}

// A request of a Job that may make it.
type request struct {
	*http.Request
	openStore

	grant Grant
	key   string
	body  http.ResponseWriter
	// sending and taking are the paces of the request's body, and of the answer's.
	sending, taking pace
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/healthz" {
		return // 200.
	}
	start := time.Now()
	q, err := s.admit(w, r)
	if err == nil {
		s.log.LogAttrs(r.Context(), slog.LevelDebug, "Admitted a request", slog.String("method", r.Method), slog.String("store", q.grant.Store), slog.String("folder", q.grant.Folder), slog.String("object", q.grant.Object))
		err = s.conns.claim(r.Context(), q.grant.namespace())
	}
	if err == nil {
		err = s.serveInTurn(r.Context(), q)
	}
	s.logRequest(q, r, time.Since(start), err)
	switch {
	case errors.Is(err, errCutOff):
		panic(http.ErrAbortHandler) // An answer that has begun cannot say that it failed but by its end.
	case err != nil:
		sendError(w, err)
	}
}

// serveInTurn a request, once there is a place for it.
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
		line = append(line, slog.String("store", q.grant.Store), slog.String("key", v1.PrintableText(q.key, v1.MaxForeignText)))
	}
	if n, nerr := strconv.Atoi(r.URL.Query().Get("part")); nerr == nil {
		line = append(line, slog.Int("part", n))
	}
	ctx := context.WithoutCancel(r.Context())
	switch no := new(refusal); {
	case errors.As(err, &no):
		s.log.LogAttrs(ctx, slog.LevelWarn, "Refused a request", append(line, slog.Int("status", no.status), slog.Any("error", err))...)
	case err != nil:
		s.log.LogAttrs(ctx, slog.LevelWarn, "Failed to serve a request", append(line, slog.Any("error", err))...)
	default:
		s.log.LogAttrs(ctx, slog.LevelInfo, "Served a request", line...)
	}
}

// Refusals of a Job, or a namespace, that asks for more than its share.
var (
	errManyOfGrant     = refuse(http.StatusTooManyRequests, "there are %d requests with this token already", maxOfGrant)
	errManyOfNamespace = refuse(http.StatusTooManyRequests, "the Jobs of this namespace have their share of the gateway's places already: ask again later")
	errManyConnections = refuse(http.StatusTooManyRequests, "the Jobs of this namespace have %d connections already", maxConnsOfNamespace)
)

// errCutOff is of an answer that ends before its end.
var errCutOff = errors.New("the answer was cut off")

// A refusal is an answer that is no store's.
type refusal struct {
	status int
	why    string
}

func (r *refusal) Error() string { return r.why }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// admit a request that its token is for.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) (*request, error) {
	o, err := s.stores.read()
	if err != nil {
		s.log.Error("Cannot read the settings from the controller", slog.Any("error", err))
		return nil, refuse(http.StatusServiceUnavailable, "the gateway has no settings that it can use")
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return nil, refuse(http.StatusUnauthorized, "there is no token")
	}
	g, err := readGrant(token, o.signers, s.stores.now)
	if err != nil {
		return nil, refuse(http.StatusUnauthorized, "the token is not believed: %s", v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	at, ok := o.stores[g.Store]
	if !ok {
		// It may be as new as the token, of which the kubelet has not brought the settings yet.
		return nil, refuse(http.StatusServiceUnavailable, "the gateway does not know BackupStore %.100q, or not yet", g.Store)
	}
	return &request{Request: r, openStore: at, grant: g, key: keyOf(r.URL.EscapedPath()), body: w, sending: s.sending, taking: s.taking}, nil
}

// keyOf the path of a request, which is not unescaped: no key needs it.
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
		return refuse(http.StatusBadRequest, "that is no upload's ID")
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
	return refuse(http.StatusForbidden, "the token is not for this")
}

func (q *request) sendObject(ctx context.Context) error {
	from := int64(0)
	if h := q.Header.Get("Range"); h != "" {
		n, err := fmt.Sscanf(h, "bytes=%d-", &from)
		if n != 1 || err != nil || from < 0 || h != fmt.Sprintf("bytes=%d-", from) {
			return refuse(http.StatusRequestedRangeNotSatisfiable, "the range is not one from a byte on")
		}
	}
	o, err := q.Stat(ctx, q.key)
	if err != nil {
		return err
	}
	if from > 0 && from >= o.Size {
		return refuse(http.StatusRequestedRangeNotSatisfiable, "the object has %d bytes only", o.Size)
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
	if _, err := io.CopyN(&patient{to: q.body, control: http.NewResponseController(q.body), pace: q.taking}, r, o.Size-from); err != nil {
		return fmt.Errorf("%w: %w", errCutOff, err)
	}
	return nil
}

// sendFileKey of an encrypted object: with it, and nothing else, that one can be decrypted.
func (q *request) sendFileKey(ctx context.Context) error {
	if len(q.identities) == 0 {
		return refuse(http.StatusConflict, "BackupStore %q has no identity in this cluster, by which its backups are decrypted: put it into the Secret of keySecretRef, as key identity", q.grant.Store)
	}
	r, err := q.Read(ctx, q.key, 0)
	if err != nil {
		return err
	}
	defer r.Close() //nolint:errcheck // Nothing was written.
	header, err := age.ExtractHeader(io.LimitReader(r, maxHeader))
	if err != nil {
		return refuse(http.StatusUnprocessableEntity, "the object is not encrypted, or damaged: %s", v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	key, err := age.DecryptHeader(header, q.identities...)
	if err != nil {
		return refuse(http.StatusConflict, "the identity of BackupStore %q does not open it: %s", q.grant.Store, v1.PrintableText(err.Error(), v1.MaxForeignText))
	}
	_, err = q.body.Write(key) //nolint:gosec // It is no page: sixteen bytes for a program.
	return err
}

// checkOpen is nil while nothing has been proven in the folder, and there is no such object.
func (q *request) checkOpen(ctx context.Context) error {
	for _, key := range []string{path.Join(path.Dir(q.key), ManifestName), q.key} {
		_, err := q.Stat(ctx, key)
		switch {
		case err == nil:
			return refuse(http.StatusConflict, "%s is there already: nothing is written over it, or beside it", path.Base(key))
		case !store.Is(err, store.NotFound):
			return err
		}
	}
	return nil
}

// checkUnproven is nil while nothing has been proven in the folder: a token to write ends with its backup.
func (q *request) checkUnproven(ctx context.Context) error {
	_, err := q.Stat(ctx, path.Join(path.Dir(q.key), ManifestName))
	switch {
	case err == nil:
		return refuse(http.StatusConflict, "the backup is proven: nothing is written beside it")
	case !store.Is(err, store.NotFound):
		return err
	}
	return nil
}

// A begunUpload is the answer to who begins one.
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
		return refuse(http.StatusBadRequest, "a part's number is from 1 to %d", store.MaxParts)
	case size < 0 || size > maxPart:
		return refuse(http.StatusRequestEntityTooLarge, "a part says its size, which is %d bytes at most", maxPart)
	}
	if sum := q.Header.Get(headerMD5); sum != "" {
		if raw, err := base64.StdEncoding.DecodeString(sum); err != nil || len(raw) != md5.Size {
			return refuse(http.StatusBadRequest, "%s is no sum", headerMD5)
		}
	}
	if err := q.checkUnproven(ctx); err != nil {
		return err
	}
	body := &patientReader{from: io.LimitReader(q.Body, size), control: http.NewResponseController(q.body), pace: q.sending}
	p, err := q.PutPart(ctx, q.key, id, n, body, size, q.Header.Get(headerMD5))
	if err != nil {
		return err
	}
	return json.NewEncoder(q.body).Encode(p)
}

// A completeUpload is what makes an object.
type completeUpload struct {
	Parts parts `json:"parts"`
	Size  int64 `json:"size"`
}

// parts that are no more than an upload may have: an empty one takes three bytes to say, and a hundred times that in memory.
type parts []store.Part

var errManyParts = fmt.Errorf("an upload has at most %d parts", store.MaxParts)

// UnmarshalJSON one by one.
func (p *parts) UnmarshalJSON(raw []byte) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil { // The bracket.
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
	body := &patientReader{from: io.LimitReader(q.Body, maxList), control: http.NewResponseController(q.body), pace: q.sending}
	if err := json.NewDecoder(body).Decode(&c); err != nil {
		return refuse(http.StatusBadRequest, "the list of parts cannot be read, or is longer than %d", store.MaxParts)
	}
	err := q.checkOpen(ctx)
	if err == nil {
		err = q.CompleteUpload(ctx, q.key, id, c.Parts)
	}
	// The answer to an earlier try may have been lost. Whether these are the right bytes the proof says.
	if no := new(refusal); errors.As(err, &no) || store.Is(err, store.NoUpload) || store.Is(err, store.Exists) || store.Is(err, store.NotFound) {
		if o, serr := q.Stat(ctx, q.key); serr == nil && o.Size == c.Size {
			return nil
		}
	}
	return err
}

// statuses that a Job gets for what a store has said. Others are 502: it is tried again.
var statuses = map[store.Kind]int{
	store.NotFound: http.StatusNotFound, store.NoUpload: http.StatusGone, store.Exists: http.StatusConflict, store.Full: http.StatusInsufficientStorage,
	store.Busy: http.StatusServiceUnavailable,
}

// An answer to what failed.
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
	w.Header().Set("Connection", "close") // What is still to be sent of a request is not waited for.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Second))
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f) //nolint:errchkjson // The Job may be gone.
}
