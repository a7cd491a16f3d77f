package main

import (
	"context"
	"encoding/base64"
	"maps"
	"slices"
	"strings"
	"testing"

	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/fn/options"
)

// named returns a reference to an object, as in spec fields such as pvcRef.
func named(name string) map[string]any { return map[string]any{"name": name} }

// scheduled returns a value of spec.backup with a schedule.
func scheduled(schedule map[string]any) map[string]any { return map[string]any{"schedule": schedule} }

// cron returns a value of spec.backup with a schedule of cold backups.
func cron(cron, timeZone string) map[string]any {
	schedule := map[string]any{"cron": cron, "method": "Cold"}
	if timeZone != "" {
		schedule["timeZone"] = timeZone
	}
	return scheduled(schedule)
}

// retention returns a value of spec.backup that sets one field of the retention.
func retention(field string, value any) map[string]any {
	return map[string]any{"retention": map[string]any{field: value}}
}

// continuous returns a value of spec.backup that sets fields of the archive of the binary log.
func continuous(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i].(string)] = pairs[i+1]
	}
	return map[string]any{"continuous": out}
}

// setIn returns a copy of a document with a value at a path.
func setIn(m map[string]any, value any, path ...string) map[string]any {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]any{}
	}
	if len(path) == 1 {
		if m[path[0]] = value; value == nil {
			delete(m, path[0])
		}
		return m
	}
	child, _ := m[path[0]].(map[string]any)
	m[path[0]] = setIn(child, value, path[1:]...)
	return m
}

// kindOf returns the kind of a document.
func kindOf(m map[string]any) string { s, _ := m["kind"].(string); return s }

// without returns the documents that are not of the given kind.
func without(docs []map[string]any, kind string) []map[string]any {
	return slices.DeleteFunc(slices.Clone(docs), func(d map[string]any) bool { return kindOf(d) == kind })
}

// edit sets a value in all documents of a kind.
func edit(docs []map[string]any, kind string, value any, path ...string) []map[string]any {
	out := make([]map[string]any, len(docs))
	for i, d := range docs {
		if out[i] = d; kindOf(d) == kind {
			out[i] = setIn(d, value, path...)
		}
	}
	return out
}

// pullSecrets returns image pull secrets as in the spec of a claim.
func pullSecrets(names ...string) []any {
	out := make([]any, 0, len(names))
	for _, name := range names {
		out = append(out, map[string]any{"name": name})
	}
	return out
}

// TestBadInput checks that each invalid input causes a Fatal result, which leaves all existing objects unchanged. The
// message must name the field and say how to fix it.
func TestBadInput(t *testing.T) {
	spec := func(key string, value any) func(*caller) { return func(c *caller) { c.set(key, value) } }
	config := func(key string, value any) func(*caller) { return spec("config", map[string]any{key: value}) }
	input := func(key string, value any) func(*caller) {
		return func(c *caller) { c.input = setIn(c.input, value, key) }
	}
	platform := func(key string, value any) func(*caller) {
		return func(c *caller) { c.cluster = edit(c.cluster, v1.KindPlatform, value, "spec", key) }
	}
	secret := func(key, value string) func(*caller) {
		return func(c *caller) {
			c.set("password", nil).set("passwordSecretRef", map[string]any{"name": "shop-root", "key": key})
			c.cluster = append(c.cluster, map[string]any{"apiVersion": "v1", "kind": "Secret",
				"metadata": map[string]any{"name": "shop-root", "namespace": "default"},
				"data":     map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(value))}})
		}
	}
	cases := map[string]struct {
		example string
		change  func(*caller)
		want    []string
	}{
		"NoPassword": {change: spec("password", nil), want: []string{"spec.password", "Set passwordSecretRef"}},
		"TwoPasswords": {change: spec("passwordSecretRef", map[string]any{"name": "a", "key": "b"}),
			want: []string{"spec.password", "Remove one"}},
		"EmptyPassword":   {change: spec("password", ""), want: []string{"spec.password", "empty"}},
		"PasswordNewline": {change: spec("password", "a\nb"), want: []string{"spec.password", "control character"}},
		"PasswordTooLong": {change: spec("password", strings.Repeat("x", 257)), want: []string{"spec.password", "256 bytes"}},
		"NoSecret": {change: func(c *caller) { secret("password", "x")(c); c.cluster = without(c.cluster, "Secret") },
			want: []string{"spec.passwordSecretRef.name", "default/shop-root", "Create it"}},
		"NoSecretKey":   {change: secret("other", "x"), want: []string{"spec.passwordSecretRef.key", `"other"`, "Add the key"}},
		"SecretNotUTF8": {change: secret("password", "\xff\xfe"), want: []string{"spec.passwordSecretRef", "UTF-8"}},
		"SecretEmpty":   {change: secret("password", "\n"), want: []string{"spec.passwordSecretRef", "empty"}},
		"SecretBadName": {change: func(c *caller) {
			secret("password", "x")(c)
			c.set("passwordSecretRef", map[string]any{"name": "../x", "key": "k"})
		}, want: []string{"spec.passwordSecretRef.name"}},
		"NoSize":   {change: spec("storage_size", nil), want: []string{"spec.storageSize", "1Gi"}},
		"TwoSizes": {change: spec("storageSize", "1Gi"), want: []string{"spec.storageSize", "Remove one"}},
		"NotAQuantity": {change: spec("storage_size", "big"),
			want: []string{"spec.storage_size", "not a quantity", "1Gi"}},
		"TinySize":        {change: spec("storage_size", "512Ki"), want: []string{"spec.storage_size", "1Mi"}},
		"GrowsWithoutEnd": {change: spec("storageAutogrow", map[string]any{}), want: []string{"spec.storageAutogrow.to", "100Gi"}},
		"GrowsToLess": {change: spec("storageAutogrow", map[string]any{"to": "1Mi"}),
			want: []string{"spec.storageAutogrow.to", "smaller than storage_size", "or more"}},
		"GrowsAlways": {change: spec("storageAutogrow", map[string]any{"to": "9Gi", "below": "100%"}),
			want: []string{"spec.storageAutogrow.below", "from 1% to 90%"}},
		"GrowsByZero": {change: spec("storageAutogrow", map[string]any{"to": "9Gi", "by": "0"}),
			want: []string{"spec.storageAutogrow.by", "10Gi"}},
		"NegativeSize": {change: spec("storage_size", "-1Gi"),
			want: []string{"spec.storage_size", "not a quantity"}},
		"AbsurdSize": {change: spec("storage_size", "1e400"), want: []string{"spec.storage_size"}},
		"EndlessSize": {change: spec("storage_size", "1e-9999999"),
			want: []string{"spec.storage_size", "not a quantity"}},
		"EndlessMemory": {change: spec("resources",
			map[string]any{"limits": map[string]any{"memory": "1e-999999999"}}), want: []string{"spec.resources.limits[memory]",
			"is too large or too precise"}},
		"HugeSize":      {change: spec("storage_size", "2Ei"), want: []string{"spec.storage_size", "1Ei"}},
		"SizeIsANumber": {change: spec("storage_size", 5), want: []string{"spec.storage_size"}},
		"Shrinks": {example: "running", change: spec("storage_size", "512Mi"),
			want: []string{"spec.storage_size", "cannot shrink", "1Gi"}},
		"ServiceType": {change: spec("service", map[string]any{"type": "ExternalName"}),
			want: []string{"spec.service.type", "ClusterIP", "LoadBalancer"}},
		"ServiceToHeadless": {example: "running", change: spec("service", map[string]any{"headless": true}),
			want: []string{"spec.service.headless", "Restore the previous value"}},
		"ServiceFromHeadless": {example: "service-headless",
			change: spec("service", map[string]any{"type": "ClusterIP"}), want: []string{"spec.service.headless", "Restore the previous value"}},
		"ServiceHeadlessPort": {change: spec("service", map[string]any{"type": "NodePort", "headless": true}),
			want: []string{"spec.service.headless", "Set type to ClusterIP"}},
		"ServiceAnnotation": {change: spec("service",
			map[string]any{"annotations": map[string]any{"crossplane.io/composition-resource-name": "x"}}), want: []string{
			"spec.service.annotations", "allowedServiceAnnotations"}},
		"AnnotationKey": {change: spec("service", map[string]any{"annotations": map[string]any{"not a key": "x"}}),
			want: []string{"spec.service.annotations"}},
		"ConfigKey": {change: config("max connections", "1"),
			want: []string{"spec.config[max connections]", "not a valid setting name"}},
		"ConfigSection": {change: config("[client]", "1"),
			want: []string{"spec.config[[client]]", "not a valid setting name"}},
		"ConfigInclude": {change: config("!include", "/etc/x"), want: []string{"spec.config[!include]"}},
		"ConfigNewline": {change: config("sql_mode", "ANSI\n[client]\nuser=x"),
			want: []string{"spec.config[sql_mode]", "line break"}},
		"ConfigQuote": {change: config("sql_mode", `a"b`),
			want: []string{"spec.config[sql_mode]", "double quote"}},
		"ConfigObject": {change: config("sql_mode", map[string]any{"a": "b"}),
			want: []string{"spec.config[sql_mode]", "string, a number or a boolean"}},
		"ConfigTwice": {change: spec("config", map[string]any{"max-connections": 1, "max_connections": 2}),
			want: []string{"spec.config[max_connections]", "max-connections"}},
		"ConfigTooLong": {change: config("sql_mode", strings.Repeat("x", 5000)),
			want: []string{"spec.config[sql_mode]", "too long"}},
		"EmptyImage": {change: spec("image", ""), want: []string{"spec.image", "mysql:8.4"}},
		"ImageSpace": {change: spec("image", "mysql 8"),
			want: []string{"spec.image", "not a valid image name"}},
		"PullSecretName": {change: spec("imagePullSecrets", []any{named("other/x")}),
			want: []string{"spec.imagePullSecrets[0].name", "is not a valid Secret name"}},
		"PullSecretEmpty": {change: spec("imagePullSecrets", []any{map[string]any{}}),
			want: []string{"spec.imagePullSecrets[0].name", "set the name of a Secret in the claim's namespace"}},
		"PullSecretTwice": {change: spec("imagePullSecrets",
			[]any{named("a"), named("a")}), want: []string{"spec.imagePullSecrets[1].name",
			"Remove one"}},
		"PullSecretsMany": {change: spec("imagePullSecrets", pullSecrets("a", "b", "c", "d", "e", "f")),
			want: []string{"spec.imagePullSecrets", "must have at most 5 items"}},
		"Scheduling": {change: spec("scheduling", map[string]any{"nodeSelector": map[string]any{"a b": "c"}}),
			want: []string{"spec.scheduling.nodeSelector"}},
		"Toleration": {change: spec("scheduling",
			map[string]any{"tolerations": []any{map[string]any{"key": "theirs", "operator": "Exists"}}}), want: []string{
			"spec.scheduling.tolerations[0].key", "theirs is not allowed by the platform"}},
		"NoDatabase":       {change: spec("database", nil), want: []string{"spec.database"}},
		"DatabaseBacktick": {change: spec("database", "a`b"), want: []string{"spec.database", "letters"}},
		"DatabaseSystem":   {change: spec("database", "MySQL"), want: []string{"spec.database", "system schema"}},
		"DeletionPolicy": {change: spec("deletionPolicy", "Keep"),
			want: []string{"spec.deletionPolicy", "Backup", "Discard"}},
		"Foreground": {change: spec("compositeDeletePolicy", "Foreground"),
			want: []string{"spec.compositeDeletePolicy", "Background"}},
		"KeepNothing": {change: spec("backup", retention("count", 0)),
			want: []string{"spec.backup.retention.count", "1 to 100"}},
		"MethodUnknown": {change: spec("backup", scheduled(map[string]any{"cron": "@daily", "method": "Hot"})),
			want: []string{"spec.backup.schedule.method", "Online", "Cold"}},
		"ScheduleOnly": {change: spec("backup", scheduled(map[string]any{"cron": "0 3 * * *"})),
			want: []string{"spec.backup.schedule.method", "Online clones"}},
		"ScheduleText": {change: spec("backup", cron("at night", "")),
			want: []string{"spec.backup.schedule.cron", "0 3 * * *"}},
		"ScheduleEvery": {change: spec("backup", cron("@every 1h", "")),
			want: []string{"spec.backup.schedule.cron", "Use a cron expression"}},
		"ScheduleZone": {change: spec("backup", cron("TZ=UTC 0 3 * * *", "")),
			want: []string{"spec.backup.schedule.cron", "timeZone"}},
		"ScheduleNever": {change: spec("backup", cron("0 0 31 2 *", "")),
			want: []string{"spec.backup.schedule.cron", "matches no existing date"}},
		"ScheduleNowhere": {change: spec("backup",
			cron("0 3 * * *", "Europe/Berln")), want: []string{
			"spec.backup.schedule.timeZone", "Europe/Berlin"}},
		"ScheduleHere": {change: spec("backup",
			cron("0 3 * * *", "Local")), want: []string{
			"spec.backup.schedule.timeZone", "Europe/Berlin"}},
		"ZoneOnly": {change: spec("backup", scheduled(map[string]any{"timeZone": "Europe/Berlin", "method": "Cold"})),
			want: []string{"spec.backup.schedule.cron"}},
		"KeepForMonths": {change: spec("backup", retention("minAge", "3m")),
			want: []string{"spec.backup.retention.minAge", "30d"}},
		"KeepAbsurd": {change: spec("backup", retention("count", 1e300)),
			want: []string{"spec.backup.retention.count", "whole number"}},
		"KeepFraction": {change: spec("backup", retention("count", 1.5)),
			want: []string{"spec.backup.retention.count", "whole number"}},
		"RestorePolicy": {change: spec("restore", map[string]any{"policy": "Sometimes"}),
			want: []string{"spec.restore.policy", "Latest", "Never"}},
		"RestoreFromAnd": {change: spec("restore", map[string]any{"from": "other", "backup": "b"}),
			want: []string{"spec.restore.from", "Remove one"}},
		"RestoreFromNever": {change: spec("restore", map[string]any{"from": "other", "policy": "Never"}),
			want: []string{"spec.restore.from", "Remove one"}},
		"RestoreAtAnd": {change: spec("restore", map[string]any{"at": "2026-11-22T18:00:00Z", "backup": "b"}),
			want: []string{"spec.restore.at", "Remove one"}},
		"RestoreAtNever": {change: spec("restore", map[string]any{"at": "2026-11-22T18:00:00Z", "policy": "Never"}),
			want: []string{"spec.restore.at", "Remove one"}},
		"RestoreAtText": {change: spec("restore", map[string]any{"at": "yesterday"}),
			want: []string{"spec.restore.at", "must be a time", "GTID"}},
		"RestoreAtDay": {change: spec("restore", map[string]any{"at": "2026-02-30T18:00:00Z"}),
			want: []string{"spec.restore.at", "must be a time"}},
		"ContinuousOnVolume": {change: spec("backup", map[string]any{"continuous": map[string]any{}}),
			want: []string{"spec.backup.continuous", "requires a BackupStore"}},
		"DurabilityOnVolume": {change: spec("backup", continuous("durability", "Store")),
			want: []string{"spec.backup.continuous", "requires a BackupStore"}},
		"DurabilityOther": {change: spec("backup", continuous("durability", "Disk")),
			want: []string{"spec.backup.continuous.durability", "Server", "Store"}},
		"DurabilityDisabled": {change: spec("backup", continuous("durability", "Store", "enabled", false)),
			want: []string{"spec.backup.continuous.durability", "Remove enabled"}},
		"FailurePolicyAlone": {change: spec("backup", continuous("storeFailurePolicy", "Continue")),
			want: []string{"spec.backup.continuous.storeFailurePolicy", "Set durability to Store"}},
		"FailurePolicyOther": {change: spec("backup", continuous("durability", "Store", "storeFailurePolicy", "Ignore")),
			want: []string{"spec.backup.continuous.storeFailurePolicy", "Wait", "Continue"}},
		"ImportNothing": {change: spec("restore", map[string]any{"import": map[string]any{}}),
			want: []string{"spec.restore.import", "but has 0", "exactly one of volume, server and dump"}},
		"ImportTwo": {change: spec("restore",
			map[string]any{"import": map[string]any{"volume": map[string]any{"pvcRef": named("a")},
				"dump": map[string]any{"storeRef": named("s"), "name": "a.sql"}}}), want: []string{"spec.restore.import", "but has 2"}},
		"ImportAnd": {change: spec("restore",
			map[string]any{"from": "other", "import": map[string]any{"volume": map[string]any{"pvcRef": named("a")}}}), want: []string{
			"spec.restore.import", "Remove one"}},
		"ImportNever": {change: spec("restore",
			map[string]any{"policy": "Never",
				"import": map[string]any{"volume": map[string]any{"pvcRef": named("a")}}}), want: []string{
			"spec.restore.import", "Remove one"}},
		"ImportOwn": {change: spec("restore",
			map[string]any{"import": map[string]any{"volume": map[string]any{"pvcRef": named("mysql-instance-pvc")}}}), want: []string{
			"pvcRef", "the volume of this claim itself"}},
		"ImportFolder": {change: spec("restore",
			map[string]any{"import": map[string]any{
				"volume": map[string]any{"pvcRef": named("a"), "directory": "../b"}}}), want: []string{"directory", "below the root"}},
		"ImportHost": {change: spec("restore",
			map[string]any{"import": map[string]any{
				"server": map[string]any{"host": "a/b", "secretRef": named("s")}}}), want: []string{
			"host", "must be a DNS name or an IPv4 address"}},
		"ImportPort": {change: spec("restore",
			map[string]any{"import": map[string]any{
				"server": map[string]any{"host": "a", "port": 70000, "secretRef": named("s")}}}), want: []string{"port", "65535"}},
		"ImportSecret": {change: spec("restore",
			map[string]any{"import": map[string]any{
				"server": map[string]any{"host": "a", "secretRef": named("s/t")}}}), want: []string{
			"secretRef", "is not a valid Secret name"}},
		"ImportDump": {change: spec("restore",
			map[string]any{"import": map[string]any{"dump": map[string]any{"storeRef": named("s"), "name": "../a.sql"}}}), want: []string{
			"name", "must end in .sql"}},
		"ImportSum": {change: spec("restore",
			map[string]any{"import": map[string]any{
				"dump": map[string]any{"storeRef": named("s"), "name": "a.sql", "sha256": "x"}}}), want: []string{"sha256", "SHA-256"}},
		"ImportNotAllowed": {change: spec("restore",
			map[string]any{"import": map[string]any{"server": map[string]any{"host": "a", "secretRef": named("s")}}}), want: []string{
			"spec.restore.import.server", "a:3306 is not allowed by the platform. Allowed: none"}},
		"ImportStore": {change: spec("restore",
			map[string]any{"import": map[string]any{"dump": map[string]any{"storeRef": named("s"), "name": "a.sql"}}}), want: []string{
			"spec.restore.import.dump.storeRef.name", "is not allowed by the platform"}},
		"RestoreFromPath": {change: spec("restore", map[string]any{"from": "../other"}),
			want: []string{"spec.restore.from", "is not a valid claim name"}},
		"RestoreBoth": {change: spec("restore", map[string]any{"policy": "Never", "backup": "b"}),
			want: []string{"spec.restore.backup", "Remove one"}},
		"NegativeMemory": {change: spec("resources", map[string]any{"limits": map[string]any{"memory": "-1Gi"}}),
			want: []string{"spec.resources.limits[memory]", "must not be negative"}},
		"RequestOverLimit": {change: spec("resources",
			map[string]any{"limits": map[string]any{"memory": "1Gi"},
				"requests": map[string]any{"memory": "2Gi"}}), want: []string{"spec.resources.requests[memory]", "limit"}},
		"MemoryNotAQuantity": {change: spec("resources", map[string]any{"limits": map[string]any{"memory": "lots"}}),
			want: []string{"spec.resources"}},
		"Device": {change: spec("resources",
			map[string]any{"limits": map[string]any{"devices.kubevirt.io/kvm": "1"}}), want: []string{
			"spec.resources.limits[devices.kubevirt.io/kvm]", "device", "memory"}},
		"ResourceClaims": {change: spec("resources",
			map[string]any{"claims": []any{named("gpu")}}), want: []string{"spec.resources.claims", "Remove them"}},
		"NoNamespace": {change: spec("claimRef", nil), want: []string{"spec.claimRef", "Create a MySQL claim"}},
		"BadName": {change: spec("claimRef",
			map[string]any{"kind": "MySQL", "namespace": "default", "name": "1.db"}), want: []string{"metadata.name",
			"Service"}},
		"LongBadName": {change: spec("claimRef",
			map[string]any{"kind": "MySQL", "namespace": "default", "name": "a" + strings.Repeat("b", 100) +
				".c"}), want: []string{"metadata.name", "Service"}},
		"BackupName": {change: spec("claimRef",
			map[string]any{"kind": "MySQL", "namespace": "default", "name": "backup-db"}), want: []string{"metadata.name",
			"backup-"}},
		"DatabaseDollars":          {change: spec("database", "a$$b"), want: []string{"spec.database"}},
		"DatabaseNoBreakSpace":     {change: spec("database", "a\u00a0b"), want: []string{"spec.database"}},
		"DatabaseEndsInSpace":      {change: spec("database", "shop "), want: []string{"spec.database"}},
		"DatabaseIdeographicSpace": {change: spec("database", "a\u3000b"), want: []string{"spec.database"}},
		"DatabaseLineSeparator":    {change: spec("database", "a\u2028b"), want: []string{"spec.database"}},
		"DatabaseZeroWidth":        {change: spec("database", "a\u200bb"), want: []string{"spec.database"}},
		"DatabaseBidi":             {change: spec("database", "a\u202eb"), want: []string{"spec.database"}},
		"DatabaseSoftHyphen":       {change: spec("database", "a\u00adb"), want: []string{"spec.database"}},
		"DatabaseByteOrderMark":    {change: spec("database", "\ufeffa"), want: []string{"spec.database"}},
		"DatabaseC1Control":        {change: spec("database", "a\u0085b"), want: []string{"spec.database"}},
		"DatabaseFiller":           {change: spec("database", "\u3164"), want: []string{"spec.database"}},
		"DatabasePrivateUse":       {change: spec("database", "a\ue000"), want: []string{"spec.database"}},
		"DatabaseLoneSurrogate":    {change: spec("database", "a\ufffdb"), want: []string{"spec.database"}},
		"DatabaseFolder": {change: spec("database", strings.Repeat("\u6f22", 60)),
			want: []string{"spec.database", "300 bytes"}},
		"DatabaseNotBMP": {change: spec("database", "a\U00020000"), want: []string{"spec.database"}},
		"ForeignAnnotation": {change: spec("service",
			map[string]any{"annotations": map[string]any{
				"external-dns.alpha.kubernetes.io/hostname": "bank.example.org"}}), want: []string{
			"spec.service.annotations", "not allowed by the platform"}},
		"BadNamespace": {change: spec("claimRef",
			map[string]any{"kind": "MySQL", "namespace": "../etc", "name": "db"}), want: []string{"metadata.namespace"}},
		"UnknownKind": {change: func(c *caller) { c.xr["kind"] = "XPostgres" },
			want: []string{"XPostgres", "compositeTypeRef"}},
		"UnknownVersion": {change: func(c *caller) { c.xr["apiVersion"] = "otus.homework/v2" },
			want: []string{"otus.homework/v2", "compositeTypeRef"}},

		"BackupMissing": {example: "restore-named", change: func(c *caller) {
			c.cluster = without(c.cluster, "BackupRecord")
		}, want: []string{"spec.restore.backup", "there is no backup", "kubectl get backups.crossplane-mysql.io"}},
		"BackupNotProven": {example: "restore-named", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "Failed", "status", "phase")
		}, want: []string{"spec.restore.backup", "not verified"}},
		"BackupElsewhere": {example: "restore-named", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "other", "spec", "instance", "namespace")
		}, want: []string{"spec.restore.backup", "there is no backup"}},
		"BackupDeleted": {example: "restore-named", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "2026-03-02T08:00:00Z", "metadata", "deletionTimestamp")
		}, want: []string{"spec.restore.backup", "being deleted"}},
		"BackupEscapes": {example: "restore-named", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "../../etc", "spec", "archive", "path")
		}, want: []string{"archive.path", "root of its volume"}},
		"BackupAbsolute": {example: "restore-before", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "/etc/passwd", "spec", "archive", "path")
		}, want: []string{"archive.path"}},
		"BackupBadSum": {example: "restore-before", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "x", "spec", "archive", "sha256")
		}, want: []string{"archive.sha256"}},
		"BackupBadClaim": {example: "restore-before", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "a/b", "spec", "archive", "pvcName")
		}, want: []string{"archive.pvcName"}},
		"BackupWithoutArchive": {example: "restore-before", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", nil, "spec", "archive")
		}, want: []string{"where its archive is"}},
		"BackupLarger": {example: "restore-before", change: func(c *caller) {
			c.cluster = edit(c.cluster, "BackupRecord", "5Gi", "spec", "storageSize")
		}, want: []string{"spec.storage_size", "5Gi", "or more"}},
		"JobWithoutChoice": {example: "restore-during", change: func(c *caller) {
			c.observed = edit(c.observed, "Job", "{}", "metadata", "annotations", "crossplane-mysql.io/restore")
		}, want: []string{"crossplane-mysql.io/restore", "Delete the Job"}},

		"NoInput":           {change: func(c *caller) { c.input = nil }, want: []string{"no input", "Settings"}},
		"InputUnknownField": {change: input("hostpathRoot", "/x"), want: []string{"input", "hostpathRoot", "unknown field"}},
		"InputScheduling": {change: input("defaultScheduling",
			map[string]any{"tolerations": []any{map[string]any{"operator": "Exists"}}}), want: []string{"input",
			"defaultScheduling.tolerations[0].key", "set the key of the taint"}},
		"InputKind": {change: input("kind", "Config"), want: []string{"input", "Settings"}},
		"InputOfEarlier": {change: input("namespaceReuse", "Allow"),
			want: []string{"input", "namespaceReuse", "unknown field"}},
		"InputVolumes": {change: input("volumes", "NFS"), want: []string{"volumes", "StorageClass", "HostPath"}},
		"InputRoot": {change: func(c *caller) {
			c.input = setIn(setIn(c.input, "HostPath", "volumes"), "/a/../b", "hostPathRoot")
		}, want: []string{"hostPathRoot", "absolute"}},
		"InputRootIsRoot": {change: func(c *caller) {
			c.input = setIn(setIn(c.input, "HostPath", "volumes"), "/", "hostPathRoot")
		}, want: []string{"hostPathRoot"}},
		"InputNode":       {change: input("hostPathNode", "node1"), want: []string{"hostPathNode", "supported only with volumes"}},
		"InputRootUnused": {change: input("hostPathRoot", "/srv"), want: []string{"hostPathRoot", "supported only with volumes"}},

		"NoPlatform": {change: func(c *caller) { c.cluster = nil },
			want: []string{"Platform crossplane-mysql", "controller/deploy/platform"}},
		"PlatformClaims": {change: platform("defaultResources", map[string]any{"claims": []any{named("gpu")}}),
			want: []string{"Platform crossplane-mysql", "spec.defaultResources.claims", "not supported"}},
		"PlatformResources": {change: platform("defaultResources", map[string]any{"limits": map[string]any{"memory": "x"}}),
			want: []string{"Platform crossplane-mysql", "defaultResources", "memory"}},
		"PlatformImage": {change: platform("allowedImages", []any{"mariadb:"}),
			want: []string{"spec.image", "mysql:5.7", "mariadb:"}},
		"PlatformPort": {change: func(c *caller) {
			platform("allowedImages", []any{"mysql:"})(c)
			spec("image", "mysql:5000/other")(c)
		}, want: []string{"spec.image", "mysql:5000/other"}},
		"PlatformService": {change: func(c *caller) {
			platform("allowedServiceTypes", []any{"ClusterIP"})(c)
			spec("service", map[string]any{"type": "NodePort"})(c)
		}, want: []string{"spec.service.type", "NodePort", "ClusterIP"}},

		"ObservedKind": {example: "running", change: func(c *caller) {
			c.observed = edit(c.observed, "PersistentVolumeClaim", "ConfigMap", "kind")
		}, want: []string{`"data-claim"`, "ConfigMap", "PersistentVolumeClaim"}},
		"ObservedGarbage": {example: "running", change: func(c *caller) {
			c.observed = edit(c.observed, "Deployment", "five", "spec", "replicas")
		}, want: []string{`"deployment"`, "cannot read"}},
		"OtherVolume": {example: "running", change: func(c *caller) {
			c.observed = edit(c.observed, "PersistentVolumeClaim", "pvc-other", "spec", "volumeName")
		}, want: []string{"pvc-other", "Nothing is changed"}},
		"LostVolume": {example: "running", change: func(c *caller) {
			c.observed = edit(c.observed, "PersistentVolumeClaim", "Lost", "status", "phase")
		}, want: []string{"has lost its volume"}},
		"VolumeOfAnother": {example: "running", change: func(c *caller) {
			c.cluster = edit(c.cluster, "PersistentVolume", "else", "spec", "claimRef", "name")
		}, want: []string{"default/else"}},
		"UnseenVolume": {example: "volume-claim-vanished", change: func(c *caller) {
			c.xr = setIn(c.xr, nil, "status", "volume")
		}, want: []string{"has data, but PersistentVolumeClaim"}},
		"OtherClass": {example: "storage-class-growth", change: spec("storageClassName", "slow"),
			want: []string{"spec.storageClassName", "Restore the previous value"}},
		"ClassToHostPath": {example: "running", change: func(c *caller) { c.input = setIn(c.input, "HostPath", "volumes") },
			want: []string{"spec.compositionRef"}},
		"HostPathNamespaced": {example: "namespaced", change: input("volumes", v1.VolumesHostPath),
			want: []string{"spec.crossplane.compositionRef", "hostPath", "StorageClass"}},
		"HostPathToClass": {example: "hostpath", change: hostPathToClass, want: []string{"spec.compositionRef"}},
		"DatabaseNoType": {example: "database-mongo", change: spec("type", nil),
			want: []string{"spec.type", "mongo", "mysql"}},
		"DatabaseType": {example: "database-mongo", change: spec("type", "oracle"),
			want: []string{"spec.type", `"oracle"`, `"mongo", "mysql"`}},
		"DatabaseStored": {example: "database-mongo", change: spec("storageSize", "1Gi"),
			want: []string{"spec.storageSize", "is supported only for type mysql", "restoring a " +
				"mongod backup is untested", "Remove it"}},
		"DatabaseHasVolume": {example: "database-running", change: func(c *caller) {
			c.set("storageSize", "1Gi")
			c.xr = setIn(c.xr, "pvc-1", "status", "volume")
		}, want: []string{"spec.storageSize", "is " +
			"supported only for type mysql", "which stays unchanged", "delete this Database"}},
		"DatabaseNotSaid": {example: "database-running", change: func(c *caller) {
			c.xr = setIn(c.xr, "pvc-1", "status", "volume")
		}, want: []string{"spec.storageSize", "which stays unchanged"}},
		"DatabasePassword": {example: "database-mongo",
			change: spec("passwordSecretRef", map[string]any{"name": "a", "key": "b"}),
			want:   []string{"spec.passwordSecretRef", "has no password"}},
		"DatabaseMetrics": {example: "database-mongo", change: spec("metrics", map[string]any{"enabled": true}),
			want: []string{"spec.metrics.enabled", "is supported only for type mysql", "Remove it"}},
		"DatabaseNoSecret": {example: "database-mysql",
			change: spec("passwordSecretRef", map[string]any{"name": "a", "key": "b"}),
			want:   []string{"spec.passwordSecretRef.name", "default/a", "Create it"}},
		"DatabaseSizeUnset": {example: "database-mysql", change: func(c *caller) {
			c.xr = setIn(c.xr, "pvc-1", "status", "volume")
		}, want: []string{"spec.storageSize", "set it to the size"}},
		"DatabaseOfMySQL": {example: "database-restore", change: func(c *caller) {
			c.set("restore", map[string]any{"backup": "default-mysql-db-1d2c3b4a00"})
			c.cluster = edit(c.cluster, "BackupRecord", "MySQL", "spec", "instance", "kind")
			c.cluster = edit(c.cluster, "BackupRecord", v1.BackupKey("default", "default-mysql-db-1d2c3b4a00"), "metadata", "labels",
				v1.LabelBackup)
		}, want: []string{"spec.restore.backup", "contains the data of a MySQL"}},
		"NameTakenByOthers": {example: "name-taken", change: func(*caller) {},
			want: []string{"Deployment default/mysql-instance", "does not belong"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.example == "" {
				tc.example = "fresh-instance"
			}
			c := load(t, tc.example)
			tc.change(c)
			_, rsp := c.run(t)
			message := fatal(rsp)
			if message == "" {
				t.Fatalf("must be Fatal, got:\n%s", yamlOf(t, rsp))
			}
			for _, w := range tc.want {
				if !strings.Contains(message, w) {
					t.Errorf("the message must have %q: %s", w, message)
				}
			}
			if got := rsp.GetConditions()[0]; got.GetType() != "Accepted" ||
				got.GetStatus() != fnv1.Status_STATUS_CONDITION_FALSE || got.GetMessage() != message {
				t.Errorf("the condition Accepted must say the same: %v", got)
			}
		})
	}
}

// hostPathToClass changes a hostPath instance to the Composition for StorageClasses.
func hostPathToClass(c *caller) {
	c.observed = []map[string]any{{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": "x",
		"annotations": map[string]any{"crossplane.io/composition-resource-name": "data-volume"}}}}
	c.input = setIn(c.input, "StorageClass", "volumes")
}

// TestRefusedOptions checks that the function refuses all options that would move the data or make writes less
// durable, in each spelling that mysqld accepts.
func TestRefusedOptions(t *testing.T) {
	f := newFunction()
	values := map[string]string{"log_bin": "/elsewhere/binlog", "innodb_flush_log_at_trx_commit": "2",
		"innodb_fast_shutdown": "2"}
	names := append(options.Names(), "log_bin", "innodb_flush_log_at_trx_commit", "innodb_fast_shutdown")
	for _, must := range []string{
		"datadir", "innodb_data_home_dir", "innodb_data_file_path", "innodb_log_group_home_dir", "innodb_undo_directory",
		"innodb_doublewrite_dir",
		"innodb_directories", "grant_tables", "init_file", "plugin_load", "plugin_load_add", "early_plugin_load",
		"name_resolve",
	} {
		if !slices.Contains(names, must) {
			t.Errorf("%s must be refused", must)
		}
	}
	for _, name := range names {
		for _, key := range []string{name, strings.ReplaceAll(name, "_", "-"), "loose-" + name, strings.ToUpper(name),
			"loose_skip-" + name, name[:len(name)-1]} {
			value := values[name]
			if value == "" {
				value = "/elsewhere"
			}
			c := load(t, "fresh-instance").set("config", map[string]any{key: value})
			rsp, err := f.RunFunction(context.Background(), c.request(t))
			if err != nil || !strings.Contains(fatal(rsp), "spec.config["+key+"]") {
				t.Errorf("spec.config[%s] must be refused: %q %v", key, fatal(rsp), err)
			}
		}
	}
}
