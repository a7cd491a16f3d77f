package compose

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// configFrom returns the my.cnf in an output.
func configFrom(t *testing.T, out *Output) string {
	t.Helper()
	c, ok := out.Resources[v1.ResourceConfig].Object.(*corev1.ConfigMap)
	if !ok {
		t.Fatal("no ConfigMap")
	}
	return c.Data[v1.ConfigKey]
}

// TestServerID checks that instances have different server_ids, which must be the same in every release.
func TestServerID(t *testing.T) {
	for uid, want := range map[types.UID]uint32{
		"6a3f0b52-1c0e-4d8e-9a53-0d0f3c2b1a11": 3080770438,
		"6a3f0b52-1c0e-4d8e-9a53-0d0f3c2b1a12": 2446061351,
	} {
		if got := serverID(uid); got != want {
			t.Errorf("the server_id of %s was %d, and is %d: replicas would take the server for another one", uid, want, got)
		}
	}
	seen := map[uint32]bool{0: true, 1: true}
	for n := range 2000 {
		id := serverID(types.UID(strconv.Itoa(n)))
		if seen[id] {
			t.Errorf("instance %d has the server_id %d, which is reserved or another instance's", n, id)
		}
		seen[id] = true
	}
}

// TestIdentityInConfig checks that a server_id in the claim takes precedence in any spelling.
func TestIdentityInConfig(t *testing.T) {
	own := fmt.Sprintf("server_id = %d\n", serverID(testInstance))
	for key, want := range map[string]bool{"max_connections": true, "server_id": false, "server-id": false,
		"loose_Server_ID": false} {
		out := composed(t, given(func(in *Input) { in.XR.Spec.Config = map[string]v1.Setting{key: "77"} }))
		if got := configFrom(t, out); strings.Contains(got, own) != want || !strings.Contains(got, key+" = 77\n") {
			t.Errorf("with %s: want a server_id of ours: %v, got\n%s", key, want, got)
		}
	}
}

const (
	modeLine        = "loose_gtid_mode = ON\n"
	consistencyLine = "loose_enforce_gtid_consistency = ON\n"
	oldServers      = "[mysqld-5.6]\nloose_gtid_mode = OFF\nloose_enforce_gtid_consistency = " +
		"OFF\n[mysqld-5.7]\nloose_gtid_mode = OFF\nloose_enforce_gtid_consistency = OFF\n"
)

// TestGTIDsOfSettings checks that the claim's settings for GTIDs take precedence, and that every combination results
// in a configuration with which the server starts.
func TestGTIDsOfSettings(t *testing.T) {
	cases := map[string]struct {
		reason    string
		byDefault bool
		settings  map[string]v1.Setting
		want      string
	}{
		"New": {reason: "An instance with MySQL 8.0 or newer must have GTIDs from its first start.",
			byDefault: true, want: modeLine + consistencyLine + oldServers},
		"Existing": {reason: "An instance that started without GTIDs must stay without them.", want: ""},
		"Off": {reason: "The gtid_mode of the claim must take precedence.", byDefault: true,
			settings: map[string]v1.Setting{"gtid_mode": "OFF"}, want: ""},
		"OnRequest": {reason: "The server does not start with gtid_mode alone.",
			settings: map[string]v1.Setting{"gtid-mode": "on"}, want: consistencyLine},
		"Number": {reason: "The value 3 of gtid_mode means ON.",
			byDefault: true, settings: map[string]v1.Setting{"gtid_mode": "3"},
			want: consistencyLine},
		"Both": {reason: "The claim sets both options, so nothing must be added.",
			settings: map[string]v1.Setting{"gtid_mode": "ON", "enforce_gtid_consistency": "ON"}, want: ""},
		"Permissive": {reason: "ON_PERMISSIVE, a step of an online change, requires no other option.", byDefault: true,
			settings: map[string]v1.Setting{"gtid_mode": "ON_PERMISSIVE"}, want: ""},
		"Consistency": {reason: "An option that the claim sets must not be repeated.", byDefault: true,
			settings: map[string]v1.Setting{"enforce_gtid_consistency": "1"},
			want:     modeLine + "[mysqld-5.6]\nloose_gtid_mode = OFF\n[mysqld-5.7]\nloose_gtid_mode = OFF\n"},
		"Warn": {reason: "The server does not start with gtid_mode = ON and enforce_gtid_consistency = WARN.",
			byDefault: true,
			settings:  map[string]v1.Setting{"loose-enforce-gtid-consistency": "WARN"}, want: "loose_gtid_mode = OFF\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, gtidConfig(tc.byDefault, tc.settings)); diff != "" {
				t.Errorf("%s -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

// TestGTIDsFromTheFirstStart checks that a new or restored instance has GTIDs. An instance that first started without
// GTIDs does not get them, even if it restarts with the current my.cnf.
func TestGTIDsFromTheFirstStart(t *testing.T) {
	stopped := func(in *Input) {
		inUse(in)
		in.Observed.Deployment.Spec.Replicas = new(int32(0))
	}
	cases := map[string]struct {
		reason       string
		in           Input
		gtids, noted bool
	}{
		"New": {reason: "The server starts for the first time.", in: given(), gtids: true, noted: true},
		"Waiting": {reason: "The server has not started, so the status must not record GTIDs yet.",
			in: given(func(in *Input) { in.XR.Status.PreviousBackup = "" }), gtids: true},
		"Existing": {reason: "A server that an earlier release started without GTIDs must restart without them.",
			in: given(stopped)},
		"Noted": {reason: "The status records that the instance has had GTIDs since its first start.",
			in: given(stopped, func(in *Input) { in.XR.Status.GTIDs = true }), gtids: true, noted: true},
		"NotWritten": {reason: "If the status was not written, the observed my.cnf shows that the server has GTIDs.",
			in: given(stopped, func(in *Input) {
				in.Observed.Config.Data[v1.ConfigKey] = configHeader + gtidConfig(true, nil)
			}), gtids: true, noted: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := composed(t, tc.in)
			got := configFrom(t, out)
			if strings.Contains(got, modeLine+consistencyLine+oldServers) != tc.gtids ||
				strings.Contains(got, "gtid") != tc.gtids {
				t.Errorf("%s want GTIDs: %v, got\n%s", tc.reason, tc.gtids, got)
			}
			if out.Status.GTIDs != tc.noted {
				t.Errorf("%s want status.internal.gtids %v", tc.reason, tc.noted)
			}
		})
	}
}
