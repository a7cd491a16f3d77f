// Package alerts tries the alerts of controller/deploy/monitoring: with what each is for, and with what it is not for.
package alerts
