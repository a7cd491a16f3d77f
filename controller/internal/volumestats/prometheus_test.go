package volumestats

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// seriesOf returns a series of a metric with one sample.
func seriesOf(name, namespace, pvc, more string, scraped float64, value string) string {
	return fmt.Sprintf(`{"metric":{"__name__":%q,"namespace":%q,"persistentvolumeclaim":%q%s},"values":[[%f,%q]]}`, name, namespace,
		pvc, more, scraped, value)
}

// bothOf returns the series of both metrics of the volume db-pvc from one scrape.
func bothOf(namespace, more string, scraped float64, available, capacity string) string {
	return seriesOf(nameAvailable, namespace, "db-pvc", more, scraped, available) + "," +
		seriesOf(nameCapacity, namespace, "db-pvc", more, scraped, capacity)
}

func matrix(series ...string) string {
	return `{"status":"success","data":{"resultType":"matrix","result":[` + strings.Join(series, ",") + `]}}`
}

func TestParse(t *testing.T) {
	db := Volume{Namespace: "team", PVC: "db-pvc"}
	for name, tc := range map[string]struct {
		body string
		want Usage
		// reason is the expected reason why the usage of db is unknown. err is the expected error of parse.
		reason, err string
	}{
		"One": {body: matrix(bothOf("team", "", 100, "20", "100")), want: Usage{20, 100}},
		"Large": {body: matrix(bothOf("team", "", 100, "1.5e+12", "1.7592186044416e+13")),
			want: Usage{1_500_000_000_000, 17_592_186_044_416}},
		"Full": {body: matrix(bothOf("team", "", 100, "0", "100")), want: Usage{0, 100}},
		"SameNameElsewhere": {body: matrix(bothOf("other", "", 100, "1", "100"), bothOf("team", "", 100, "20", "100"),
			bothOf("another", "", 100, "2", "100")), want: Usage{20, 100}},
		"NewestScrape": {body: matrix(seriesOf(nameAvailable, "team", "db-pvc", "", 90, "50"), seriesOf(nameCapacity, "team", "db-pvc", "",
			90, "100"), bothOf("team", "", 100, "20", "110")), want: Usage{20, 110}},
		"HalfScrape": {body: matrix(bothOf("team", "", 90, "20", "100"),
			seriesOf(nameAvailable, "team", "db-pvc", "", 100, "120")), want: Usage{20, 100}},
		"Moved": {body: matrix(bothOf("team", `,"node":"a"`, 100, "1", "100"),
			bothOf("team", `,"node":"b"`, 300, "20", "100")), want: Usage{20, 100}},
		"TwoScrapers": {body: matrix(bothOf("team", `,"job":"a"`, 100, "20", "100"),
			bothOf("team", `,"job":"b"`, 101, "20", "100")), want: Usage{20, 100}},
		"OtherMetric": {body: matrix(bothOf("team", "", 100, "20", "100"),
			seriesOf("kubelet_volume_stats_used_bytes", "team", "db-pvc", "", 101, "1")), want: Usage{20, 100}},
		"WithoutLabels": {body: matrix(seriesOf(nameAvailable, "", "", "", 1, "1"), bothOf("team", "", 100, "20", "100")),
			want: Usage{20, 100}},

		"None":    {body: matrix(), reason: "Prometheus has no kubelet_volume_stats_available_bytes of PersistentVolumeClaim db-pvc"},
		"OnlyOne": {body: matrix(seriesOf(nameAvailable, "team", "db-pvc", "", 100, "20")), reason: "no scrape with both"},
		"NeverBoth": {body: matrix(seriesOf(nameAvailable, "team", "db-pvc", "", 100, "20"),
			seriesOf(nameCapacity, "team", "db-pvc", "", 101, "100")), reason: "no scrape with both"},
		"NoSamples":  {body: matrix(`{"metric":{"__name__":"` + nameAvailable + `","namespace":"team","persistentvolumeclaim":"db-pvc"}}`), reason: "no scrape with both"},
		"TwoCluster": {body: matrix(bothOf("team", `,"cluster":"a"`, 100, "1", "100"), bothOf("team", `,"cluster":"b"`, 101, "20", "100")), reason: "several different values"},
		"NaN":        {body: matrix(bothOf("team", "", 100, "NaN", "100")), reason: "impossible"},
		"NaNSize":    {body: matrix(bothOf("team", "", 100, "1", "NaN")), reason: "impossible"},
		"Infinite":   {body: matrix(bothOf("team", "", 100, "1", "+Inf")), reason: "impossible"},
		"TooLarge":   {body: matrix(bothOf("team", "", 100, "1", "1e999")), reason: "impossible"},
		"Negative":   {body: matrix(bothOf("team", "", 100, "-1", "100")), reason: "impossible"},
		"Zero":       {body: matrix(bothOf("team", "", 100, "0", "0")), reason: "impossible"},
		"MoreFree":   {body: matrix(bothOf("team", "", 100, "101", "100")), reason: "impossible"},

		"HTML":     {body: "<html>log in</html>", err: "cannot read the answer"},
		"Null":     {body: "null", err: "the query of Prometheus failed"},
		"List":     {body: "[]", err: "cannot read the answer"},
		"Cut":      {body: matrix(bothOf("team", "", 100, "20", "100"))[:60], err: "cannot read the answer"},
		"Failed":   {body: `{"status":"error","errorType":"timeout","error":"too\nslow"}`, err: "timeout: too slow"},
		"Vector":   {body: `{"status":"success","data":{"resultType":"vector","result":[]}}`, err: `"vector" instead of a matrix`},
		"Number":   {body: strings.Replace(matrix(bothOf("team", "", 100, "20", "100")), `"20"`, `20`, 1), err: "a number and a string"},
		"Text":     {body: strings.Replace(matrix(bothOf("team", "", 100, "20", "100")), `"20"`, `"many"`, 1), err: `"many" is not a number`},
		"Triple":   {body: strings.Replace(matrix(bothOf("team", "", 100, "20", "100")), `"20"`, `"20",1`, 1), err: "not a pair"},
		"LabelInt": {body: strings.Replace(matrix(bothOf("team", "", 100, "20", "100")), `"team"`, `7`, 1), err: "cannot read the answer"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parse([]byte(tc.body))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Fatalf("want the error %q, got %v", tc.err, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, reason := s.Lookup(db)
			if got != tc.want || (tc.reason == "") != (reason == "") || !strings.Contains(reason, tc.reason) {
				t.Errorf("want %+v and %q, got %+v and %q", tc.want, tc.reason, got, reason)
			}
		})
	}
}

// TestRead checks which responses of the Prometheus API Read accepts, and the errors for all others.
func TestRead(t *testing.T) {
	good := matrix(bothOf("team", "", 100, "20", "100"))
	respond := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body) //nolint:errcheck // The client may have disconnected.
		}
	}
	reached := false
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer other.Close()
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		err   string
	}{
		"Good":     {serve: respond(http.StatusOK, "application/json", good)},
		"Charset":  {serve: respond(http.StatusOK, "application/json; charset=utf-8", good)},
		"HTML":     {serve: respond(http.StatusOK, "text/html", "<html>\n<b>Log in</b>"), err: `"text/html" instead of JSON`},
		"NoType":   {serve: respond(http.StatusOK, "", good), err: "instead of JSON"},
		"Missing":  {serve: respond(http.StatusNotFound, "text/plain", "no\x1b[31m page"), err: "404 Not Found: no [31m page"},
		"Login":    {serve: respond(http.StatusUnauthorized, "application/json", `{}`), err: "401"},
		"Overload": {serve: respond(http.StatusServiceUnavailable, "application/json", good), err: "503"},
		"Redirect": {serve: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) },
			err: "redirects"},
		"Huge": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			block := []byte(strings.Repeat(" ", 1<<20))
			for range 2 * maxResponse >> 20 {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		}, err: "more than 16 MiB"},
		"Cut": {serve: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100000")
			fmt.Fprint(w, good) //nolint:errcheck // The client may have disconnected.
		}, err: "cannot read the answer"},
		"Closed": {serve: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, err: "cannot query"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(tc.serve)
			defer server.Close()
			s, err := Source{URL: server.URL + "/"}.Read(t.Context())
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("want the error %q, got %v", tc.err, err)
			}
			if tc.err == "" && s.Volumes() != 1 {
				t.Errorf("got %d volumes", s.Volumes())
			}
		})
	}
	if reached {
		t.Error("the query was sent to another host")
	}
}

// TestSlow checks that a server that never responds does not delay the controller.
func TestSlow(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := (Source{URL: server.URL}).Read(ctx); err == nil {
		t.Error("want an error")
	}
}

// TestRequest checks the path, the query and the token of a request over TLS.
func TestRequest(t *testing.T) {
	var path, query, token string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, query, token = r.URL.Path, r.URL.Query().Get("query"), r.Header.Get("Authorization")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, matrix()) //nolint:errcheck // The client may have disconnected.
	}))
	defer server.Close()
	dir := t.TempDir()
	ca, secret := filepath.Join(dir, "ca.crt"), filepath.Join(dir, "token")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	source := Source{URL: server.URL + "/prom", Selector: `cluster="west"`, TokenFile: secret, CAFile: ca}
	if _, err := source.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "token-file") {
		t.Fatalf("want an error about the token, got %v", err)
	}
	for _, want := range []string{"first", "second"} {
		if err := os.WriteFile(secret, []byte(want+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := source.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if token != "Bearer "+want {
			t.Errorf("got the token %q", token)
		}
	}
	const wantQuery = `{__name__=~"kubelet_volume_stats_available_bytes|kubelet_volume_stats_capacity_bytes",` +
		`persistentvolumeclaim=~".+-pvc",cluster="west"}[5m]`
	if path != "/prom/api/v1/query" || query != wantQuery {
		t.Errorf("got %s with %s", path, query)
	}
	if _, err := (Source{URL: server.URL}).Read(t.Context()); err == nil {
		t.Error("a server with an unknown CA is accepted")
	}
	if err := os.WriteFile(ca, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "contains no certificate") {
		t.Errorf("got %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		source Source
		want   string
	}{
		"Good":       {source: Source{URL: "http://prometheus.monitoring.svc:9090"}},
		"Path":       {source: Source{URL: "https://thanos/prefix/", TokenFile: "t", CAFile: "c"}},
		"Selector":   {source: Source{URL: "http://a", Selector: `cluster="west",job!~"x|y"`}},
		"NoScheme":   {source: Source{URL: "prometheus:9090"}, want: "not an address"},
		"File":       {source: Source{URL: "file:///etc/passwd"}, want: "not an address"},
		"Query":      {source: Source{URL: "http://a?b=c"}, want: "not an address"},
		"User":       {source: Source{URL: "http://admin:secret@a"}, want: "not an address"},
		"ClearToken": {source: Source{URL: "http://a", TokenFile: "t"}, want: "clear text"},
		"ClearCA":    {source: Source{URL: "http://a", CAFile: "c"}, want: "requires an address with https"},
		"Injection":  {source: Source{URL: "http://a", Selector: `a="b"} or {c="d"`}, want: "not a list of label matchers"},
		"NoValue":    {source: Source{URL: "http://a", Selector: `cluster`}, want: "not a list of label matchers"},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.source.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("want %q, got %v", tc.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("the message contains the password")
			}
		})
	}
}

// TestMonitor checks that a snapshot is used for a while if the next queries fail, and that users see no addresses.
func TestMonitor(t *testing.T) {
	v := Volume{Namespace: "team", PVC: "db-pvc"}
	if _, reason := NewMonitor(Source{}).Lookup(v); reason != NotConfigured {
		t.Errorf("got %q", reason)
	}
	now, fails := time.Unix(0, 0), error(nil)
	m := &Monitor{Now: func() time.Time { return now }, Read: func(context.Context) (*Snapshot, error) {
		return &Snapshot{usage: map[Volume]Usage{v: {Available: 1, Capacity: 2}}}, fails
	}}
	if _, reason := m.Lookup(v); !strings.Contains(reason, "not read") {
		t.Errorf("got %q", reason)
	}
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	fails = errors.New("dial tcp 10.0.0.1:9090")
	for age, known := range map[time.Duration]bool{0: true, keep: true, keep + 1: false} {
		now = time.Unix(0, 0).Add(age)
		if err := m.Refresh(t.Context()); err == nil {
			t.Fatal("want an error")
		}
		if u, reason := m.Lookup(v); (reason == "") != known || (u.Capacity == 2) != known || strings.Contains(reason, "10.0.0.1") {
			t.Errorf("after %s: got %+v and %q", age, u, reason)
		}
	}
	if got := []time.Duration{Pause(0), Pause(1), Pause(2), Pause(100)}; got[0] != time.Minute || got[1] != 2*time.Minute ||
		got[2] != longestRetry || got[3] != longestRetry {
		t.Errorf("got %v", got)
	}
}
