package main

import (
	"slices"
	"testing"
	"time"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// TestSettled checks the TTL of a response. It is long for an instance without changes if Crossplane watches
// everything that the instance depends on. It is short for an instance that changes, and one minute otherwise.
func TestSettled(t *testing.T) {
	watched := func(c *caller) *caller {
		c.seeding = true
		return c
	}
	status := func(value any, path ...string) func(*caller) *caller {
		return func(c *caller) *caller {
			c.xr = setIn(c.xr, value, append([]string{"status"}, path...)...)
			return watched(c)
		}
	}
	dropping := func(ago time.Duration) func(*caller) *caller {
		return status([]any{map[string]any{
			"type": "Responsive", "status": "False", "reason": "WatchCircuitOpen",
			"lastTransitionTime": time.Now().Add(-ago).Format(time.RFC3339),
		}}, "conditions")
	}
	// moving returns a change that adds a condition with a recent transition time. If down is set, the Deployment is not
	// ready.
	moving := func(condition string, ago time.Duration, down bool) func(*caller) *caller {
		return func(c *caller) *caller {
			c = status([]any{map[string]any{"type": condition, "status": "True", "reason": "Any",
				"lastTransitionTime": time.Now().Add(-ago).Format(time.RFC3339)}}, "conditions")(c)
			if down {
				i := slices.IndexFunc(c.observed, func(o map[string]any) bool { return o["kind"] == "Deployment" })
				c.observed[i] = setIn(c.observed[i], map[string]any{}, "status")
			}
			return c
		}
	}
	cases := map[string]struct {
		reason, example string
		change          func(*caller) *caller
		want            time.Duration
	}{
		"Running": {reason: "Crossplane watches everything that the instance depends on.",
			example: "running", change: watched, want: 10 * time.Minute},
		"Fetched": {reason: "If Crossplane watches no required resources, only another call shows a changed Secret.",
			example: "running", want: time.Minute},
		"Suspended": {reason: "A suspended instance does not change.",
			example: "suspended", change: watched, want: 10 * time.Minute},
		"Mongo": {reason: "A settled Database must also get a long TTL.", example: "database-running", change: watched,
			want: 10 * time.Minute},
		"Begin": {reason: "A new instance changes, and Crossplane may drop its events.", example: "fresh-instance",
			want: 5 * time.Second},
		"Starting": {reason: "The TTL must be short until the server is ready.", example: "running",
			change: moving("Serving", time.Second, true), want: 5 * time.Second},
		"Slow": {reason: "The TTL must grow with the time since the last change.", example: "running",
			change: moving("Serving", 20*time.Second, true), want: 20 * time.Second},
		"Started": {reason: "The TTL of a ready instance must be long.",
			example: "running", change: moving("Serving", time.Minute, false),
			want: 10 * time.Minute},
		"Stuck": {reason: "The TTL must not exceed one minute while the server is not ready.", example: "running",
			change: moving("Serving", 3*time.Minute, true), want: time.Minute},
		"Refused": {reason: "A user is about to change a refused spec.",
			example: "name-taken", change: watched, want: time.Minute},
		"Image": {reason: "The controller is about to stop the server.", example: "image-waits", change: watched,
			want: time.Minute},
		"Backup": {reason: "A backup of the instance is in progress.", example: "running",
			change: status(map[string]any{"phase": "Running", "method": "Online"}, "internal",
				"requestedBackup"), want: time.Minute},
		"Dropping": {reason: "If Crossplane drops events, only another call shows a change.", example: "running",
			change: dropping(5 * time.Minute), want: time.Minute},
		"Dropped": {reason: "A condition Responsive that is older than the cooldown must be ignored.", example: "running",
			change: dropping(15 * time.Minute), want: 10 * time.Minute},
		"Hearing": {reason: "Crossplane delivers all events again.", example: "running",
			change: status([]any{map[string]any{"type": "Responsive", "status": "True", "reason": "WatchCircuitClosed"}},
				"conditions"), want: 10 * time.Minute},
		"Blocked": {reason: "The instance is blocked, so its state will change.", example: "running",
			change: status(map[string]any{"reason": "CopyFound", "message": "x"}, "internal", "blockedBy"), want: time.Minute},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := load(t, tc.example)
			if tc.change != nil {
				c = tc.change(c)
			}
			_, rsp := c.run(t)
			// The TTL is the time since the change, and a few seconds may have passed.
			if got := rsp.GetMeta().GetTtl().AsDuration(); got < tc.want || got >= tc.want+5*time.Second {
				t.Errorf("%s Want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

// TestPasswordVersion checks that a changed Secret changes the status, so that the controller notices the change
// without permission to watch Secrets. The status contains no data of the Secret. It does not change if Crossplane
// does not watch the Secret.
func TestPasswordVersion(t *testing.T) {
	for _, watches := range []bool{true, false} {
		c := load(t, "password-from-secret")
		for i, o := range c.cluster {
			if o["kind"] == "Secret" {
				c.cluster[i] = setIn(o, "4711", "metadata", "resourceVersion")
			}
		}
		c.seeding = watches
		_, rsp := c.run(t)
		got := at(rsp.GetDesired().GetComposite().GetResource().AsMap(), "status", "internal", "passwordVersion")
		if want := map[bool]any{true: "4711", false: nil}[watches]; got != want {
			t.Errorf("watched: %t: want %v, got %v", watches, want, got)
		}
	}
}

// TestUpdateWaits checks the example of a server that an earlier release started. The server keeps its pod, although
// this release would create the pod with other resources and a different my.cnf.
func TestUpdateWaits(t *testing.T) {
	_, rsp := load(t, "update-waits").run(t)
	i := slices.IndexFunc(rsp.GetConditions(), func(c *fnv1.Condition) bool { return c.GetType() == v1.ConditionPendingRestart })
	if got := rsp.GetConditions()[i].GetReason(); got != v1.ReasonUpdateWaits {
		t.Errorf("want %s, got %s: take status.internal.revision of xr.yaml from the digest of the observed template",
			v1.ReasonUpdateWaits, got)
	}
}
