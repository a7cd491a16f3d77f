package gateway

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRequestsAreLogged checks that the log contains accepted and refused requests, and the requests to the store. It
// must not contain tokens.
func TestRequestsAreLogged(t *testing.T) {
	g := newTestGateway(t)
	var log bytes.Buffer
	g.log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	token, err := g.signer.Sign(Grant{Store: "offsite", Object: "v1/a/b.tar.zst"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Repeat("x", 20) + token
	for _, tc := range []struct {
		token, path string
		want        []string
	}{
		{token, "v1/a/b.tar.zst", []string{
			`"level":"DEBUG","msg":"Admitted a request","method":"GET","store":"offsite","folder":"","object":"v1/a/b.tar.zst"`,
			`"msg":"Sent a request to the store","store":"offsite","method":"HEAD"`,
			`"level":"WARN","msg":"Failed to serve a request"`,
		}},
		{token, "v1/other.tar.zst", []string{`"level":"WARN","msg":"Refused a request"`, `"status":403`}},
		{forged, "v1/a/b.tar.zst", []string{`"level":"WARN","msg":"Refused a request"`, `"status":401`}},
	} {
		log.Reset()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.http.URL+"/v1/objects/"+tc.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+tc.token)
		answer, err := g.http.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("want %s, got:\n%s", want, log.String())
			}
		}
		if strings.Contains(log.String(), tc.token) {
			t.Errorf("the token is in the log:\n%s", log.String())
		}
	}
}
