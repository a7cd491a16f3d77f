package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
)

// mainVariable is an environment variable. If it is set, the test binary runs the main function instead of tests.
const mainVariable = "CONTROLLER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(mainVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// run runs the program in a second process of the test binary, and returns its exit code and output.
func run(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), mainVariable+"=1")
	out, err := cmd.CombinedOutput()
	failure := new(exec.ExitError)
	if err != nil && !errors.As(err, &failure) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestCommands checks that the program accepts the command lines that Jobs use.
func TestCommands(t *testing.T) {
	i := v1.Instance{Kind: v1.KindDatabase, Namespace: "shop", Name: "orders", XR: "uid-1"}
	u := agent.Unpacking{Archive: "/backup/one/data.tar.zst", Volume: "/data", SHA256: "abc", Version: "9.7.4",
		Clean: true}
	told := unpacking{Archive: u.Archive, SHA256: "abc", SourceVersion: "9.7.4", SourceClean: true,
		TargetVersion: agent.VersionFile, inStore: inStore{Access: agent.AccessDir}}
	remote := u
	remote.Archive, remote.Object = "", "v1/a/b/one/x.tar.zst.age"
	importing := agent.Importing{Volume: "/data", XR: "uid-1", Name: "one@time"}
	toldHalf := half{Volume: "/data", Directory: v1.DataDirectory, XR: "uid-1", Name: "one@time", Report: agent.TerminationLog}
	toldRemote := told
	toldRemote.Archive, toldRemote.Object = "", remote.Object
	cases := map[string]struct {
		command []string
		program string
		want    any
		got     func(*cli) any
	}{
		"Backup": {
			command: agent.Backup{
				Volume: "/data", Archive: u.Archive, Record: "one", Image: "mysql:8.4", Instance: i, NamespaceUID: "uid-2",
				Version: "8.4.6", NeverServed: true, WithoutOutside: true,
				Number: 7, StorageSize: "1Gi",
			}.Command(),
			program: agent.Program,
			want: backupCommand{
				Volume: "/data", Directory: v1.DataDirectory, Archive: u.Archive, Record: "one", XR: "uid-1", Kind: v1.KindDatabase,
				Namespace:    "shop",
				NamespaceUID: "uid-2", Name: "orders", Image: "mysql:8.4", SourceVersion: "8.4.6", NeverServed: true,
				WithoutOutside: true, Report: agent.TerminationLog,
				Number: 7, StorageSize: "1Gi", inStore: inStore{Access: agent.AccessDir},
			},
			got: func(c *cli) any { return c.Backup },
		},
		"BackupToStore": {
			command: agent.Backup{Volume: "/data", Object: "v1/a/b/one", Record: "one", Instance: i}.Command(),
			program: agent.Program,
			want: backupCommand{
				Volume: "/data", Directory: v1.DataDirectory, Record: "one", XR: "uid-1", Kind: v1.KindDatabase, Namespace: "shop",
				Name: "orders", Report: agent.TerminationLog,
				inStore: inStore{Object: "v1/a/b/one", Access: agent.AccessDir},
			},
			got: func(c *cli) any { return c.Backup },
		},
		"RestoreFromStore": {
			command: remote.Restore("uid-1"), program: agent.Program, got: func(c *cli) any { return c.Restore },
			want: restoreCommand{unpacking: toldRemote, Volume: "/data", Directory: v1.DataDirectory, XR: "uid-1",
				Report: agent.TerminationLog},
		},
		"Restore": {
			command: u.Restore("uid-1"), program: agent.Program, got: func(c *cli) any { return c.Restore },
			want: restoreCommand{unpacking: told, Volume: "/data", Directory: v1.DataDirectory, XR: "uid-1",
				Report: agent.TerminationLog},
		},
		"Unpack": {
			command: u.Unpack(), program: agent.Program, got: func(c *cli) any { return c.Unpack },
			want: unpackCommand{unpacking: told, Volume: "/data", Report: agent.TerminationLog},
		},
		"RestoreBase": {
			command: importing.Base(remote), program: agent.Program, got: func(c *cli) any { return c.RestoreBase },
			want: restoreBaseCommand{half: toldHalf, unpacking: toldRemote},
		},
		"ApplyLog": {
			command: importing.ApplyLog(&v1.Recovery{At: "2026-11-22T18:00:00.25Z", Timeline: "v1-log/ns/xr/one", Segment: 7,
				Digest: "abc", Until: "2026-11-22T18:00:01.123456Z"}), program: agent.CopiedProgram,
			got: func(c *cli) any { return c.ApplyLog },
			want: applyLogCommand{half: toldHalf, At: "2026-11-22T18:00:00.25Z", Timeline: "v1-log/ns/xr/one", Segment: 7,
				Digest: "abc", Until: time.Date(2026, 11, 22, 18, 0, 1, 123_456_000, time.UTC), Access: agent.AccessDir},
		},
		"ValidateSettings": {
			command: agent.ValidateSettings("/data", "/sockets", "/tls"), program: agent.CopiedProgram,
			got:  func(c *cli) any { return c.ValidateSettings },
			want: validateSettingsCommand{Volume: "/data", Sockets: "/sockets", TLS: "/tls", Report: agent.TerminationLog},
		},
		"Initialize": {
			command: agent.Initialize("uid-1", "/data", "/secret", "/sockets"), program: agent.CopiedProgram,
			got: func(c *cli) any { return c.Initialize },
			want: initializeCommand{Volume: "/data", Directory: v1.DataDirectory, XR: "uid-1", Secret: "/secret",
				Sockets: "/sockets", Report: agent.TerminationLog},
		},
		"BootCheck": {
			command: agent.BootCheck("/copy"), program: agent.CopiedProgram, got: func(c *cli) any { return c.Bootcheck },
			want: bootCheckCommand{Dir: "/copy", Directory: v1.DataDirectory, Report: agent.TerminationLog},
		},
		"ExportMetrics": {command: agent.ExportMetrics("/exporter/my.cnf", 9104), program: agent.CopiedProgram,
			got:  func(c *cli) any { return c.ExportMetrics },
			want: exportMetricsCommand{Account: "/exporter/my.cnf", Port: 9104}},
		"Wipe": {command: agent.Wipe("/data"), program: agent.Program, got: func(c *cli) any { return c.Wipe },
			want: wipeCommand{Volume: "/data"}},
		"WipeData": {command: agent.WipeData("uid-1", "/data"), program: agent.Program,
			got: func(c *cli) any { return c.Wipe }, want: wipeCommand{Volume: "/data", XR: "uid-1"}},
		"Survey": {command: agent.Survey("/backup"), program: agent.Program, got: func(c *cli) any { return c.Survey },
			want: surveyCommand{Volume: "/backup", Report: agent.TerminationLog}},
		"Prune": {command: agent.Prune("/backup", "one", "two"), program: agent.Program,
			got: func(c *cli) any { return c.Prune }, want: pruneCommand{Volume: "/backup", Dir: []string{"one", "two"}}},
		"Install": {command: agent.ToolsContainer("x").Command, program: agent.Program,
			got: func(c *cli) any { return c.Install }, want: installCommand{To: agent.CopiedProgram}},
		"Version": {command: agent.VersionContainer("x").Command, program: agent.CopiedProgram,
			got: func(c *cli) any { return c.VersionOfServer }, want: versionCommand{To: agent.VersionFile}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := &cli{}
			if _, err := newParser(t.Context(), c).Parse(tc.command[1:]); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.got(c),
				cmp.AllowUnexported(backupCommand{}, restoreCommand{}, unpackCommand{},
					unpacking{}, restoreBaseCommand{}, applyLogCommand{})); diff != "" || tc.command[0] != tc.program {
				t.Errorf("%s\n-want, +got:\n%s", tc.command[0], diff)
			}
		})
	}
}

// TestRoundTrip runs backup, restore and other commands on local directories, with the flags that Jobs use.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for name, content := range map[string]string{
		"volume/data/ibdata1": "pages", "new/.keep": "", "version.json": `{"version":"9.7.4-2","flavour":"mysql"}`,
		"report": "",
	} {
		write(t, path(name), content)
	}
	if err := os.Remove(path("new/.keep")); err != nil {
		t.Fatal(err)
	}
	code, out := run(t, "backup", "--volume="+path("volume"), "--directory=data",
		"--archive="+path("backup/one/data.tar.zst"),
		"--record=one", "--xr=uid", "--namespace=default", "--name=shop", "--source-version=9.7.4-2",
		"--report="+path("report"))
	if code != 0 {
		t.Fatalf("backup ended with %d: %s", code, out)
	}
	r := readReport(t, path("report"))
	restore := []string{
		"restore", "--archive=" + path("backup/one/data.tar.zst"), "--sha256=" + r.SHA256, "--volume=" + path("new"),
		"--directory=data",
		"--source-version=9.7.4-2", "--source-clean=false", "--target-version=" + path("version.json"),
		"--report=" + path("report"),
	}
	if code, out = run(t, restore...); code != 0 {
		t.Fatalf("restore ended with %d: %s", code, out)
	}
	if raw, err := os.ReadFile(path("new/data/ibdata1")); err != nil || string(raw) != "pages" {
		t.Errorf("restored: %q, %v", raw, err)
	}
	if code, out = run(t, append(restore, "--source-version=")...); code != agent.ExitVersion {
		t.Errorf("restore of an unknown version ended with %d: %s", code, out)
	}
	unpack := []string{
		"unpack", "--archive=" + path("backup/one/data.tar.zst"), "--sha256=" + r.SHA256, "--volume=" + path("backup"),
		"--source-version=9.7.4-2", "--source-clean=false", "--target-version=" + path("version.json"),
		"--report=" + path("report"),
	}
	if code, out = run(t, unpack...); code != 0 {
		t.Fatalf("unpack ended with %d: %s", code, out)
	}
	if raw, err := os.ReadFile(path("backup/.crossplane-mysql-restore-test/data/ibdata1")); err != nil ||
		string(raw) != "pages" {
		t.Errorf("unpacked: %q, %v", raw, err)
	}
	if code, out = run(t, "wipe", "--volume="+path("backup/.crossplane-mysql-restore-test")); code != 0 {
		t.Fatalf("wipe ended with %d: %s", code, out)
	}
	if left := names(t, path("backup/.crossplane-mysql-restore-test")); len(left) > 0 {
		t.Errorf("wipe left %q", left)
	}
	if err := os.Remove(path("backup/one/data.tar.zst")); err != nil {
		t.Fatal(err)
	}
	if code, out = run(t, append(restore, "--volume="+dir, "--directory=other",
		"--source-clean=true")...); code != agent.ExitMissing {
		t.Errorf("restore without an archive ended with %d: %s", code, out)
	}
	if r := readReport(t, path("report")); r.OK || r.ExitCode != agent.ExitMissing || r.Error == "" {
		t.Errorf("the report is %+v", r)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readReport(t *testing.T, path string) agent.Report {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := agent.Report{}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInstall(t *testing.T) {
	target := filepath.Join(t.TempDir(), "controller")
	for range 2 {
		if code, out := run(t, "install", "--to="+target); code != 0 {
			t.Fatalf("it ended with %d: %s", code, out)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy is another: %v", err)
	}
	info, err := os.Stat(target)
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(target)); err != nil || len(entries) != 1 {
		t.Errorf("it left %v, %v", entries, err)
	}
}

func TestVersionOfServer(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)'\n"
	if err := os.WriteFile(filepath.Join(dir, "mysqld"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	target := filepath.Join(dir, "version.json")
	if code, out := run(t, "version-of-server", "--to="+target); code != 0 {
		t.Fatalf("it ended with %d: %s", code, out)
	}
	raw, err := os.ReadFile(target)
	if err != nil || !strings.Contains(string(raw), `"version":"10.11.18-MariaDB-0+deb12u1","flavour":"mariadb"`) {
		t.Errorf("it says %s, %v", raw, err)
	}
}

// TestHelp checks that each flag has a help text.
func TestHelp(t *testing.T) {
	for _, command := range []string{"start", "backup", "restore", "unpack", "clone", "bootcheck", "wipe", "prune",
		"install", "version-of-server"} {
		code, out := run(t, command, "--help")
		if code != 0 || !strings.Contains(out, "Usage: controller "+command) {
			t.Errorf("%s --help ended with %d: %s", command, code, out)
		}
	}
	for _, command := range newParser(t.Context(), &cli{}).Model.Leaves(true) {
		if command.Help == "" {
			t.Errorf("nothing says what %s is for", command.Name)
		}
		for _, group := range command.AllFlags(true) {
			for _, flag := range group {
				if flag.Help == "" {
					t.Errorf("%s --%s has no explanation", command.Name, flag.Name)
				}
			}
		}
	}
	if code, _ := run(t, "backup"); code == 0 {
		t.Error("backup without flags ended with 0")
	}
}

// TestPasswordGrace checks that a grace period is refused if it is too short for a client that has just read the
// Secret.
func TestPasswordGrace(t *testing.T) {
	for _, bad := range []string{"0s", "4s", "-1m", "2"} {
		if code, out := run(t, "start", "--password-grace="+bad); code == 0 || !strings.Contains(out, "password-grace") {
			t.Errorf("--password-grace=%s ended with %d: %s", bad, code, out)
		}
	}
	// The flag is valid if the program starts and fails only when it connects to the cluster.
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if code, out := run(t, "start", "--password-grace=5s"); code == 0 || strings.Contains(out, "password-grace") {
		t.Errorf("--password-grace=5s ended with %d: %s", code, out)
	}
}

// TestClusterDomainFlag checks that an invalid domain is refused.
func TestClusterDomainFlag(t *testing.T) {
	for domain, good := range map[string]bool{"": true, "cluster.local": true, "k8s.corp.example": true, "prod": true,
		".local": false, "a b": false, "UPPER": false} {
		if err := (&startCommand{PasswordGrace: time.Hour, ClusterDomain: domain}).Validate(); (err == nil) != good {
			t.Errorf("%q: %v", domain, err)
		}
	}
}

// TestJobResources checks that invalid values of --job-resources are refused with a helpful error.
func TestJobResources(t *testing.T) {
	for given, want := range map[string]string{
		`{"limits":{"memory":"256Mi"}}`:       "",
		`{"limit":{"memory":"256Mi"}}`:        "is not valid, an example is",
		`256Mi`:                               "is not valid, an example is",
		`{"limits":{"memory":"1e-99999999"}}`: "limits[memory]",
	} {
		err := (&startCommand{PasswordGrace: time.Hour, JobResources: given}).Validate()
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: want an error with %q, got %v", given, want, err)
		}
	}
}

// TestVolumeStats checks the flags with which the controller reads the free space of volumes.
func TestVolumeStats(t *testing.T) {
	for name, tc := range map[string]struct {
		command startCommand
		want    string
	}{
		"Unset":       {},
		"Address":     {command: startCommand{VolumeStatsURL: "http://prometheus:9090"}},
		"NoAddress":   {command: startCommand{VolumeStatsURL: "prometheus:9090"}, want: "--volume-stats-url"},
		"OnlyToken":   {command: startCommand{VolumeStatsTokenFile: "/token"}, want: "require --volume-stats-url"},
		"BadSelector": {command: startCommand{VolumeStatsURL: "http://p", VolumeStatsSelector: "x"}, want: "--volume-stats-selector"},
	} {
		t.Run(name, func(t *testing.T) {
			tc.command.PasswordGrace = time.Hour
			err := tc.command.Validate()
			if got := fmt.Sprint(err); (err == nil) != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
	code, out := run(t, "start", "--help")
	for _, flag := range []string{"--volume-stats-url", "--volume-stats-selector", "--volume-stats-token-file",
		"--volume-stats-ca-file"} {
		if code != 0 || !strings.Contains(out, flag) {
			t.Errorf("the help lacks %s", flag)
		}
	}
}
