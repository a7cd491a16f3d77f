// Package volumestats reads the free space of volumes from Prometheus, which scrapes the kubelets.
package volumestats

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"
)

// Limits on a response of Prometheus. A thousand volumes with a scrape every 15 seconds need 2 MiB.
const (
	timeout     = 15 * time.Second
	maxResponse = 16 << 20
	maxToken    = 64 << 10
	maxShown    = 200
)

// window is the time before the query from which samples are read. Older samples are stale.
const window = "5m"

// volumeNames matches the names of the data PVCs.
const volumeNames = `.+-pvc`

// A Source is the Prometheus that is queried for the free space of volumes, or a server with the same API.
type Source struct {
	// URL is the address without /api/v1. The query is not sent to any other host.
	URL string
	// Selector contains additional label matchers, such as cluster="west". It is empty for none.
	Selector string
	// TokenFile contains a bearer token. CAFile contains CA certificates in PEM format. Both can be empty. They are read
	// for each query, because they may be renewed.
	TokenFile, CAFile string
}

// selectorPattern matches label matchers that are separated by commas. Their values contain no quotes.
var selectorPattern = regexp.MustCompile(
	`^[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"\\\n]*"(,[a-zA-Z_][a-zA-Z0-9_]*(=|!=|=~|!~)"[^"\\\n]*")*$`)

// secureScheme is the scheme of an address whose server is verified.
const secureScheme = "https"

// Validate returns an error if the source cannot be used.
func (s Source) Validate() error {
	u, err := url.Parse(s.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != secureScheme || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "":
		return fmt.Errorf("--volume-stats-url=%q is not an address of Prometheus: use one such as "+
			"http://prometheus.monitoring.svc:9090", redactUser(s.URL))
	case s.TokenFile != "" && u.Scheme != secureScheme:
		return fmt.Errorf("--volume-stats-token-file requires an address with https, because the token would be sent in "+
			"clear text to %s", s.URL)
	case s.CAFile != "" && u.Scheme != secureScheme:
		return errors.New("--volume-stats-ca-file requires an address with https")
	case s.Selector != "" && !selectorPattern.MatchString(s.Selector):
		return fmt.Errorf(`--volume-stats-selector=%q is not a list of label matchers: use one such as cluster="west"`, s.Selector)
	}
	return nil
}

// redactUser removes a user and a password from an address.
func redactUser(address string) string {
	if i := strings.LastIndex(address, "@"); i >= 0 {
		return "…" + address[i:]
	}
	return address
}

// Read reads the usage of all data volumes.
func (s Source) Read(ctx context.Context) (*Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := s.newRequest(ctx)
	if err != nil {
		return nil, err
	}
	client, err := s.newClient()
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("cannot query Prometheus: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // The body was read, or the response is useless.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	switch {
	case response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest:
		return nil, fmt.Errorf("%s redirects the query with status %s, which is refused: use the final address", s.URL,
			response.Status)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s answers with status %s: %s", s.URL, response.Status, clip(body))
	case err != nil:
		return nil, fmt.Errorf("cannot read the answer of Prometheus: %w", err)
	case len(body) > maxResponse:
		return nil, fmt.Errorf("the answer of Prometheus has more than %d MiB: use --volume-stats-selector to select the metrics "+
			"of one cluster", maxResponse>>20)
	}
	if kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); kind != "application/json" {
		return nil, fmt.Errorf("%s answers with content of type %q instead of JSON, so it is not the API of Prometheus: %s", s.URL,
			clip([]byte(kind)), clip(body))
	}
	return parse(body)
}

// query returns the query for both metrics. It returns the samples of a time window, because these have the time of the
// scrape. The current value of a series would have the time of the query.
func (s Source) query() string {
	matchers := `__name__=~"` + nameAvailable + "|" + nameCapacity + `",persistentvolumeclaim=~"` + volumeNames + `"`
	if s.Selector != "" {
		matchers += "," + s.Selector
	}
	return "{" + matchers + "}[" + window + "]"
}

// newRequest returns the request. POST is not used, because a proxy may allow only GET.
func (s Source) newRequest(ctx context.Context) (*http.Request, error) {
	address := strings.TrimSuffix(s.URL, "/") + "/api/v1/query?" + url.Values{"query": {s.query()}}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if s.TokenFile != "" {
		token, err := readSmall(s.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read --volume-stats-token-file: %w", err)
		}
		request.Header.Set("Authorization", "Bearer "+string(bytes.TrimSpace(token)))
	}
	return request, nil
}

// newClient returns a client that follows no redirects.
func (s Source) newClient() (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CAFile != "" {
		pem, err := readSmall(s.CAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read --volume-stats-ca-file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--volume-stats-ca-file: %s contains no certificate", s.CAFile)
		}
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// readSmall reads a file of a limited size.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // The platform team chooses the path.
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // The file was only read.
	out, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err == nil && len(out) > maxToken {
		err = fmt.Errorf("%s has more than %d KiB", path, maxToken>>10)
	}
	return out, err
}

// clip returns the beginning of a response for an error message, as one printable line.
func clip(body []byte) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(string(body[:min(len(body), maxShown)]), "?"))
	return strings.TrimSpace(text)
}
