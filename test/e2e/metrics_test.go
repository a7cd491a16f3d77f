package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/crossplane-mysql/crossplane-mysql/test/e2e/framework"
)

// TestMetricsAreProtected checks that only users with the metrics role can read the metrics, which contain the names
// of all tenants' instances.
func TestMetricsAreProtected(t *testing.T) {
	t.Parallel()
	ns := framework.NewNamespace(t)
	theController.RLock()
	defer theController.RUnlock()
	metrics := framework.MetricsOf(t)
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"Nobody": {"", http.StatusUnauthorized},
		// controller-runtime's filter responds to an invalid token with an internal error.
		"Forged":   {"x.y.z", http.StatusInternalServerError},
		"Tenant":   {framework.TokenWith(t, ns, ""), http.StatusForbidden},
		"Observer": {framework.TokenWith(t, ns, framework.MetricsRole), http.StatusOK},
	} {
		status, body, err := metrics.Ask(t.Context(), tc.token)
		if err != nil || status != tc.want ||
			strings.Contains(body, "crossplane_mysql_backup_bytes") != (tc.want == http.StatusOK) {
			t.Errorf("%s: want %d, got %d with %d bytes, %v", name, tc.want, status, len(body), err)
		}
	}
}
