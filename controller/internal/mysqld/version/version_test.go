package version

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := map[string]struct {
		text string
		want Version
		bad  bool
	}{
		"MySQL":              {text: "8.4.6", want: Version{MySQL, 8, 4, 6}},
		"OldMySQLWithLog":    {text: "5.7.44-log", want: Version{MySQL, 5, 7, 44}},
		"Debian":             {text: "9.7.4-2", want: Version{MySQL, 9, 7, 4}},
		"Percona":            {text: "8.0.36-28", want: Version{MySQL, 8, 0, 36}},
		"Ubuntu":             {text: "8.0.43-0ubuntu0.24.04.1", want: Version{MySQL, 8, 0, 43}},
		"MariaDB":            {text: "10.11.18-MariaDB-0+deb12u1", want: Version{MariaDB, 10, 11, 18}},
		"MariaDBForOldOnes":  {text: "5.5.5-10.11.18-MariaDB", want: Version{MariaDB, 10, 11, 18}},
		"MariaDBUbuntu":      {text: "11.4.2-MariaDB-ubu2404", want: Version{MariaDB, 11, 4, 2}},
		"Empty":              {text: "", bad: true},
		"Tag":                {text: "8.4", bad: true},
		"Latest":             {text: "latest", bad: true},
		"TooManyDigits":      {text: "8.4.1234", bad: true},
		"Fourth":             {text: "8.4.6.1", want: Version{MySQL, 8, 4, 6}},
		"GluedOn":            {text: "8.4.6a", bad: true},
		"Newline":            {text: "8.4.6\n9", bad: true},
		"Unprintable":        {text: "8.4.6-\x1b[2J", bad: true},
		"NoUTF8":             {text: "8.4.6-\xff", bad: true},
		"Negative":           {text: "-8.4.6", bad: true},
		"MariaDBWithoutOwn":  {text: "MariaDB", bad: true},
		"SpaceAndComment":    {text: "8.4.6 MySQL Community Server", want: Version{MySQL, 8, 4, 6}},
		"ReplicationPrefix2": {text: "5.5.5-MariaDB", bad: true},
		"MongoDB":            {text: "8.0.4-MongoDB", bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.text)
			if (err != nil) != tc.bad {
				t.Fatalf("Parse(%q): %v", tc.text, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Parse(%q): -want, +got:\n%s", tc.text, diff)
			}
		})
	}
}

func TestFromBanner(t *testing.T) {
	cases := map[string]struct {
		text string
		want string
	}{
		"Debian":   {"/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n", "9.7.4-2"},
		"Official": {"/usr/sbin/mysqld  Ver 8.4.6 for Linux on aarch64 (MySQL Community Server - GPL)", "8.4.6"},
		"Percona": {"/usr/sbin/mysqld  Ver 8.0.36-28 for Linux on x86_64 (Percona Server (GPL), Release 28, Revision " +
			"47601f19)", "8.0.36-28"},
		"MariaDB": {"mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
			"10.11.18-MariaDB-0+deb12u1"},
		"MongoDB":   {"db version v8.0.4\nBuild Info: {}", ""},
		"NoVersion": {"mysqld: command not found", ""},
		"Nonsense":  {"mysqld Ver x.y", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := FromBanner(tc.text)
			if got.Version != tc.want || (err != nil) != (tc.want == "") {
				t.Errorf("FromBanner(%q): %q, %v", tc.text, got.Version, err)
			}
		})
	}
}

func TestBetween(t *testing.T) {
	cases := map[string]struct {
		reason         string
		source, target string
		want           Step
		bad            bool
	}{
		"Same":    {source: "9.7.4-2", target: "9.7.4", want: None},
		"PatchUp": {source: "8.4.5", target: "8.4.6", want: Upgrade},
		"PatchDown": {reason: "MySQL supports this downgrade within an LTS series, but it was never tested.", source: "8.4.6",
			target: "8.4.5", bad: true},
		"ToNextStation":    {source: "8.0.43", target: "8.4.6", want: Upgrade},
		"ToInnovation":     {source: "8.0.34", target: "8.3.0", want: Upgrade},
		"FromInnovation":   {source: "8.3.0", target: "8.4.0", want: Upgrade},
		"PastStation":      {reason: "This upgrade would require two steps.", source: "8.3.0", target: "9.0.0", bad: true},
		"LTSToLTS":         {source: "8.4.6", target: "9.7.4", want: Upgrade},
		"LTSToInnovation":  {source: "8.4.6", target: "9.2.0", want: Upgrade},
		"WithinInnovation": {source: "9.1.0", target: "9.6.0", want: Upgrade},
		"SkipsLTS":         {source: "8.0.43", target: "9.7.4", bad: true},
		"OldToNext":        {source: "5.7.44", target: "8.0.43", want: Upgrade},
		"OldToFar":         {source: "5.7.44", target: "8.4.6", bad: true},
		"TooOld":           {source: "5.6.51", target: "5.7.44", bad: true},
		"Downgrade":        {source: "9.7.4", target: "8.4.6", bad: true},
		"NotYetKnown": {reason: "Only a newer release of this program can know this series.", source: "9.7.4", target: "10.1.0",
			bad: true},
		"Dated":        {reason: "After 9.7, MySQL versions are dates.", source: "9.7.4", target: "26.7.0", want: Upgrade},
		"DatedLater":   {source: "9.7.4", target: "26.10.1", want: Upgrade},
		"DatedToDated": {source: "26.7.0", target: "26.10.0", want: Upgrade},
		"DatedFromInnovation": {reason: "An upgrade to a dated version must start from 9.7, the last numbered series.",
			source: "9.6.0", target: "26.7.0",
			bad: true},
		"DatedFromLTS": {source: "8.4.6", target: "26.7.0", bad: true},
		"DatedUnknown": {reason: "It is unknown which dated versions can be upgraded to this one.",
			source: "26.10.0", target: "27.1.0", bad: true},
		"NoSuchSeries": {source: "8.4.6", target: "8.9.0", bad: true},
		"Unknown": {reason: "Two equal versions need no upgrade, even if their series is unknown.", source: "12.1.3", target: "12.1.3",
			want: None},
		"UnknownPatch":     {source: "12.1.3", target: "12.1.4", want: Upgrade},
		"OtherFlavour":     {source: "5.7.44", target: "10.11.18-MariaDB", bad: true},
		"OtherFlavourSame": {source: "10.11.18", target: "10.11.18-MariaDB", bad: true},
		"MariaDBSame":      {source: "10.11.18-MariaDB", target: "5.5.5-10.11.18-MariaDB-log", want: None},
		"MariaDBPatchUp":   {source: "10.11.17-MariaDB", target: "10.11.18-MariaDB", want: Upgrade},
		"MariaDBPatchDown": {source: "10.11.18-MariaDB", target: "10.11.17-MariaDB", bad: true},
		"MariaDBSeries": {reason: "The upgrade requires mariadb-upgrade, which the product does not run.", source: "10.11.18-MariaDB",
			target: "11.4.2-MariaDB", bad: true},
		"ManyDigitsAreNumbers":  {source: "8.0.9", target: "8.0.10", want: Upgrade},
		"ManyDigitsAreNumbers2": {source: "10.2.44-MariaDB", target: "10.11.18-MariaDB", bad: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Between(parse(t, tc.source), parse(t, tc.target))
			if (err != nil) != tc.bad || got != tc.want {
				t.Errorf("%s: from %s to %s: %v, %v", tc.reason, tc.source, tc.target, got, err)
			}
		})
	}
}

func parse(t *testing.T, text string) Version {
	t.Helper()
	v, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAsk checks the version that Ask returns for a program whose output is that of mysqld --version.
func TestAsk(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$*\" = '--no-defaults --version' ] && echo '/usr/sbin/mysqld  Ver 8.4.6 for Linux on " +
		"x86_64 (MySQL Community Server - GPL)'\n"
	if err := os.WriteFile(filepath.Join(dir, "mysqld"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	got, err := Ask(t.Context())
	if err != nil || got.Version != "8.4.6" || got.Flavour != MySQL {
		t.Errorf("Ask: %+v, %v", got, err)
	}
}

func TestRead(t *testing.T) {
	cases := map[string]struct {
		content string
		want    string
	}{
		"Good":          {`{"version":"9.7.4-2","flavour":"mysql","banner":"x"}`, "MySQL 9.7.4"},
		"Contradiction": {`{"version":"9.7.4-2","flavour":"mariadb"}`, ""},
		"Empty":         {``, ""},
		"NoVersion":     {`{"flavour":"mysql"}`, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "version.json")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := Read(path)
			if (err != nil) != (tc.want == "") || (err == nil && got.String() != tc.want) {
				t.Errorf("Read: %v, %v", got, err)
			}
		})
	}
}
