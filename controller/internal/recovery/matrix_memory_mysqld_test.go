//go:build mysqld && !store

package recovery_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/s3memory"
)

// storeServer is the name of the S3 server in the results.
const storeServer = "in memory"

// newFaultyStore starts an S3 server in memory.
func newFaultyStore(t *testing.T) *faultyStore {
	t.Helper()
	m := s3memory.New(t)
	s := &faultyStore{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch s.faultOf(r) {
		case isReset:
			panic(http.ErrAbortHandler)
		case isLost:
			m.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case isDenied:
			answer(w, r, http.StatusForbidden, "AccessDenied")
		case isBusy:
			answer(w, r, http.StatusServiceUnavailable, "SlowDown")
		case noFault:
			m.ServeHTTP(w, r)
		}
	}))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	s.settings = m.Settings()
	s.settings.Endpoint = server.URL
	s.settings.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	return s
}

func answer(w http.ResponseWriter, r *http.Request, status int, code string) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `<Error><Code>%[1]s</Code><Message>a fault of the test</Message></Error>`, code)
}
