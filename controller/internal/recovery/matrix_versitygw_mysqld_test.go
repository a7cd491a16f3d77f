//go:build mysqld && store

package recovery_test

import (
	"net/http"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/storetest"
)

// storeServer is the name of the S3 server in the results.
const storeServer = "versitygw"

// newFaultyStore starts a real S3 server.
func newFaultyStore(t *testing.T) *faultyStore {
	t.Helper()
	p, settings := storetest.Start(t)
	s := &faultyStore{settings: settings}
	p.Break(func(r *http.Request) storetest.Fault {
		switch s.faultOf(r) {
		case isReset:
			return storetest.Fault{Reset: true}
		case isLost:
			return storetest.Fault{Forget: true}
		case isDenied:
			return storetest.Fault{Status: http.StatusForbidden, Code: "AccessDenied"}
		case isBusy:
			return storetest.Fault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}
		case noFault:
		}
		return storetest.Fault{}
	})
	return s
}
