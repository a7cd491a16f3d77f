// Package alerts tests when the alerts of controller/deploy/monitoring fire, and when they do not.
package alerts
