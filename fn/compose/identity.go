package compose

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

// Names of the settings that identify a server in replication.
const (
	settingServerID    = "server_id"
	settingGTIDMode    = "gtid_mode"
	settingConsistency = "enforce_gtid_consistency"
)

// withoutGTIDs are option groups that turn GTIDs off. MySQL 5.6 does not start with gtid_mode = ON and no binary log,
// and 5.7 writes no binary log by default. mysqld reads only the group of its own release series (MySQL manual,
// 6.2.2.2 Using Option Files). A my.cnf that turns GTIDs on contains both groups.
var withoutGTIDs = []string{"[mysqld-5.6]", "[mysqld-5.7]"}

// serverID returns the server_id of an instance. It depends only on the UID of the XR, and must stay the same in
// every release. It is never 0, which a server ignores, or 1, which is the default.
func serverID(xr types.UID) uint32 {
	sum := sha256.Sum256([]byte("server_id " + string(xr)))
	return max(binary.BigEndian.Uint32(sum[:4]), 2)
}

// identityConfig returns the line of my.cnf that sets server_id, unless the claim sets it.
func identityConfig(xr types.UID, settings map[string]v1.Setting) string {
	if _, set := settingOf(settings, settingServerID); set {
		return ""
	}
	return fmt.Sprintf("%s = %d\n", settingServerID, serverID(xr))
}

// settingOf returns the value of a setting of the claim, in any spelling of its name.
func settingOf(settings map[string]v1.Setting, name string) (value string, set bool) {
	for key, v := range settings {
		if plain, _ := mycnf.OptionName(key); plain == name {
			return string(v), true
		}
	}
	return "", false
}

// startsWithGTIDs reports whether the server of an instance has GTIDs by default. An instance that first started
// without GTIDs stays without them, even with a newer release of this function. If the status was never written, the
// function looks for withoutGTIDs in the observed my.cnf.
func startsWithGTIDs(in Input, started bool) bool {
	if !started || in.XR.Status.GTIDs {
		return true
	}
	c := in.Observed.Config
	return c != nil && strings.Contains(c.Data[v1.ConfigKey], withoutGTIDs[0])
}

// gtidConfig returns the last lines of my.cnf, which turn GTIDs on unless the claim sets gtid_mode. MariaDB has its
// own GTIDs, and ignores these lines because of the prefix loose_. With only gtid_mode = ON, which is the default of
// MySQL 9.7, a server does not start.
func gtidConfig(byDefault bool, settings map[string]v1.Setting) string {
	mode, isModeSet := settingOf(settings, settingGTIDMode)
	consistency, isConsistencySet := settingOf(settings, settingConsistency)
	switch {
	case isModeSet && !isConsistencySet && isOn(mode, "3"):
		return "loose_" + settingConsistency + " = ON\n"
	case !isModeSet && isConsistencySet && !isOn(consistency, "1"):
		return "loose_" + settingGTIDMode + " = OFF\n"
	case !byDefault, isModeSet:
		return ""
	}
	out := []string{"loose_" + settingGTIDMode + " = ON"}
	names := []string{settingGTIDMode}
	if !isConsistencySet {
		out, names = append(out, "loose_"+settingConsistency+" = ON"), append(names, settingConsistency)
	}
	for _, group := range withoutGTIDs {
		out = append(out, group)
		for _, name := range names {
			out = append(out, "loose_"+name+" = OFF")
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// isOn reports whether the value of a setting means ON. number is the numeric value that also means ON.
func isOn(value, number string) bool {
	return slices.Contains([]string{"on", "true", number}, strings.ToLower(value))
}
