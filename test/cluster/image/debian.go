package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// archiveKeyring contains the keys with which Debian signs its package archive. Every Debian system has this file.
const archiveKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

const certificates = "/etc/ssl/certs/ca-certificates.crt"

// BasePackages lists the packages that provide a shell and the usual commands of a shell script.
var BasePackages = []string{
	"base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "gzip", "hostname", "libc-bin", "mawk",
	"sed", "tar",
}

// Unneeded matches files that an image does not need: documentation, translations, package lists, Perl, and files
// that are specific to a machine.
var Unneeded = regexp.MustCompile(`^(` + strings.Join([]string{
	`usr/share/(bash-completion|bug|common-licenses|debconf|dict|doc|doc-base|gcc|gdb|info|lintian|locale|man|menu|pam|pam-configs|perl|perl5|pixmaps|polkit-1)`,
	`usr/share/zoneinfo/(posix|right)`,
	`usr/(lib/[^/]+-linux-gnu|share)/(perl|perl-base|perl5)`,
	`usr/lib/[^/]+-linux-gnu/(gconv|libperl\.so.*|libtcmalloc.*debug.*|libtcmalloc_and_profiler.*|audit|e2fsprogs)`,
	`usr/bin/(perl.*|cpan.*|corelist|perldoc|perlbug|localedef|dpkg.*|enc2xs|h2ph|h2xs|instmodsh|json_pp|libnetcfg|piconv|pl2pm|pod.*|prove|ptar.*|shasum|splain|streamzip|xsubpp|zipdetails)`,
	`usr/include`, `usr/src`, `usr/games`, `usr/lib/(apt|dpkg|systemd|udev|tmpfiles\.d|sysusers\.d)`,
	`var/(cache|log|backups|run|lock)/?.*`, `var/lib/(apt|dpkg|systemd|pam|ucf)`,
	`etc/(apt|cron.*|dpkg|fstab|group|hostname|init\.d|logrotate\.d|passwd|perl|resolv\.conf|systemd)`,
	`lib/(systemd|udev)`, `(boot|home|media|mnt|opt|srv|dev|proc|sys|run|tmp)`,
}, "|") + `)(/|$)`)

// notSigned matches apt's errors for an archive whose keys this machine does not have.
var notSigned = regexp.MustCompile(`NO_PUBKEY|is not signed|couldn't be verified`)

// Debian creates a Debian file tree below dir. It installs packages, with their dependencies, from this machine's
// mirror. The packages in alone are only unpacked, without their dependencies.
func (b *Builder) Debian(ctx context.Context, dir, suite string, packages []string, alone ...string) (root string,
	err error) {
	if err := needs("mmdebstrap", "unshare"); err != nil {
		return "", err
	}
	m, err := mirror()
	if err != nil {
		return "", err
	}
	conf, err := aptConf(ctx, dir)
	if err != nil {
		return "", err
	}
	root = filepath.Join(dir, "root")
	err = b.mmdebstrap(ctx, root, conf, suite, packages, alone, m, keyringOption(m))
	if err == nil || !notSigned.MatchString(err.Error()) {
		return root, err
	}
	b.sayf("this machine has no keys for Debian's %s: taking its packages unverified, for this test image only", suite)
	if err := os.RemoveAll(root); err != nil {
		return "", err
	}
	return root, b.mmdebstrap(ctx, root, conf, suite, packages, alone, m, "[trusted=yes] ")
}

func (b *Builder) mmdebstrap(ctx context.Context, root, conf, suite string, packages, alone []string, m source,
	options string) error {
	cmd := isolated(ctx, "mmdebstrap", "--mode=root", "--variant=extract", "--aptopt="+conf,
		"--include="+strings.Join(packages, ","))
	for _, p := range alone {
		cmd.Args = append(cmd.Args, fmt.Sprintf(
			`--extract-hook=cd "$1/tmp" && APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get download %s && dpkg-deb --extract %[1]s_*.deb "$1"`, p))
	}
	cmd.Args = append(cmd.Args, suite, root, fmt.Sprintf("deb %s%s %s main", options, m.uri, suite))
	cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Dir(root))
	if _, err := output(cmd); err != nil {
		return fmt.Errorf("cannot make a Debian: %w", err)
	}
	return nil
}

func keyringOption(m source) string {
	for _, k := range []string{m.keyring, archiveKeyring} {
		if _, err := os.Stat(k); k != "" && err == nil {
			return "[signed-by=" + k + "] "
		}
	}
	return ""
}

// inherited matches the apt settings that are copied from this machine. They concern the access to the mirror, such
// as proxies and CA certificates, and the check of the date.
var inherited = regexp.MustCompile(
	`^Acquire::(.*Proxy.*|Check-Date|.*::(CaInfo|CAInfo|Verify-Peer|Verify-Host|AllowRedirect|Timeout)|Retries) `)

// aptConf writes a file with apt settings and returns its path. The settings accept a mirror whose index has expired,
// because an outdated mirror is sufficient for a test.
func aptConf(ctx context.Context, dir string) (string, error) {
	text, err := output(command(ctx, "apt-config", "dump", "Acquire"))
	if err != nil {
		return "", fmt.Errorf("cannot ask apt for its settings: %w", err)
	}
	var conf strings.Builder
	conf.WriteString("Acquire::Check-Valid-Until \"false\";\n")
	for line := range strings.Lines(text) {
		if inherited.MatchString(line) {
			conf.WriteString(line)
		}
	}
	file := filepath.Join(dir, "apt.conf")
	return file, os.WriteFile(file, []byte(conf.String()), 0o600)
}

// Debian adds a file tree that Builder.Debian has installed to the layer, and the files that the packages' scripts
// would create.
func (w *Layer) Debian(root string, skip func(rel string) bool, accounts ...string) {
	for _, d := range []string{"dev", "proc", "sys", "run", "home", "var/log", "var/cache"} {
		w.Dir(d, 0o755, 0)
	}
	w.Dir("tmp", 0o1777, 0)
	w.link("var/run", "/run")
	w.link("var/lock", "/run/lock")
	w.masters(root, accounts)
	if _, err := os.Lstat(filepath.Join(root, "bin", "sh")); errors.Is(err, os.ErrNotExist) {
		w.link("bin/sh", "bash")
	}
	w.tree(root, "", func(rel string) bool { return Unneeded.MatchString(rel) || skip(rel) })
}

// masters adds /etc/passwd and /etc/group to the layer. They contain Debian's standard accounts and the given accounts.
// Each given account has a group with the same name and ID.
func (w *Layer) masters(root string, accounts []string) {
	for file, line := range map[string]string{"passwd": "%[1]s:x:%[2]s:%[2]s::%[3]s:/bin/false\n",
		"group": "%[1]s:x:%[2]s:\n"} {
		b, err := os.ReadFile(filepath.Join(root, "usr", "share", "base-passwd", file+".master"))
		if err != nil && w.err == nil {
			w.err = err
		}
		for _, a := range accounts {
			name, rest, _ := strings.Cut(a, ":")
			id, home, _ := strings.Cut(rest, ":")
			b = fmt.Appendf(b, line, name, id, home, "")
		}
		w.Text("etc/"+file, string(b))
	}
}

// InChroot runs a program in a Debian file tree and returns its output.
func InChroot(ctx context.Context, root string, args ...string) (string, error) {
	return output(isolated(ctx, append([]string{"chroot", root}, args...)...))
}

// needs returns an error if a program is not installed.
func needs(programs ...string) error {
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			return fmt.Errorf("cannot find %s: install the Debian packages %s", p, strings.Join(Packages(), " "))
		}
	}
	return nil
}
