// Package alerts tests the alerts of controller/deploy/monitoring: when each of them fires, and when it does not.
package alerts
