package image

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// mysqlID is the account of the server in the official images, user and group.
const mysqlID = 999

const dockerHub = "docker.io/library/"

// A database is an image of a server with our entrypoint.
type database struct {
	names    []string
	suite    string
	packages []string
	daemon   string
	version  string // That its name promises.
	env      []string
	config   string
	// surplus are files of the packages that neither a server nor a test needs.
	surplus string
	ports   []string
}

const serverConfig = `# As the official image has it.
[%s]
host-cache-size=0
skip-name-resolve
datadir=/var/lib/mysql
socket=/var/run/mysqld/mysqld.sock
pid-file=/var/run/mysqld/mysqld.pid
%s
!includedir /etc/mysql/conf.d/
`

// mysql of Debian's unstable suite is the only real one that is built for Debian. The names of other versions that
// examples use lead to it too.
func (b *Builder) mysql(ctx context.Context) (recipe, error) {
	return b.database(ctx, database{
		names:    []string{dockerHub + "mysql:9.7", dockerHub + "mysql:9", dockerHub + "mysql:latest", dockerHub + "mysql:8.4", dockerHub + "mysql:8.0", dockerHub + "mysql:5.7"},
		suite:    "sid",
		packages: []string{"mysql-server-core", "mysql-client-core"},
		daemon:   "mysqld",
		version:  "9.7",
		env:      []string{"MYSQL_MAJOR=9.7"},
		config:   fmt.Sprintf(serverConfig, "mysqld", "secure-file-priv=/var/lib/mysql-files\n"),
		surplus: `^usr/bin/(my_print_defaults|mysqlbinlog|mysqlcheck|myisam.*|mysqlslap|mysqlshow|mysqlimport|mysqldumpslow|mysqld_multi|mysqld_safe|mysql_migrate_keyring|mysql_secure_installation|mysql_config_editor|perror|innochecksum|ibd2sdi)$|` +
			`^usr/lib/mysql/plugin/(.*_client|telemetry.*|component_telemetry|group_replication|component_group_replication.*)\.so$`,
		ports: []string{"3306/tcp", "33060/tcp"},
	})
}

// mariadb is the one of Debian 12.
func (b *Builder) mariadb(ctx context.Context) (recipe, error) {
	return b.database(ctx, database{
		names:    []string{dockerHub + "mariadb:10.11"},
		suite:    "bookworm",
		packages: []string{"mariadb-server-core", "mariadb-client-core"},
		daemon:   "mariadbd",
		version:  "10.11",
		env:      []string{"LANG=C.UTF-8", "MARIADB_MAJOR=10.11"},
		config:   fmt.Sprintf(serverConfig, "mariadbd", ""),
		surplus:  `^usr/bin/(innochecksum|mariadb-check|mysqlcheck)$`,
		ports:    []string{"3306/tcp"},
	})
}

func (b *Builder) database(ctx context.Context, d database) (recipe, error) {
	if err := needs("mmdebstrap", "unshare"); err != nil {
		return recipe{}, err
	}
	entrypoint, err := b.compile(ctx, "entrypoint")
	if err != nil {
		return recipe{}, err
	}
	sum, err := fileSum(entrypoint)
	if err != nil {
		return recipe{}, err
	}
	d.packages = slices.Concat(d.packages, basePackages, []string{"tzdata", "util-linux", "zstd"})
	return recipe{
		names:  d.names,
		inputs: []string{fmt.Sprintf("%q", d), unneeded.String(), sum},
		build: func(ctx context.Context, dir string) (mutate.Appendable, error) {
			return b.buildDatabase(ctx, dir, entrypoint, d)
		},
	}, nil
}

func (b *Builder) buildDatabase(ctx context.Context, dir, entrypoint string, d database) (v1.Image, error) {
	root, err := b.bootstrap(ctx, dir, d.suite, d.packages)
	if err != nil {
		return nil, err
	}
	version, err := inChroot(ctx, root, d.daemon, "--version")
	if err != nil {
		return nil, err
	}
	if !strings.Contains(version, "Ver "+d.version+".") {
		return nil, fmt.Errorf("cannot use %s of Debian's %s: it is %q instead of %s", d.daemon, d.suite, strings.TrimSpace(version), d.version)
	}
	l, err := databaseLayer(dir, root, entrypoint, d)
	if err != nil {
		return nil, err
	}
	ports := map[string]struct{}{}
	for _, p := range d.ports {
		ports[p] = struct{}{}
	}
	return newImage(runtime.GOARCH, v1.Config{
		Entrypoint:   []string{"docker-entrypoint.sh"},
		Cmd:          []string{d.daemon},
		Env:          append([]string{searchPath}, d.env...),
		ExposedPorts: ports,
		Volumes:      map[string]struct{}{"/var/lib/mysql": {}},
	}, l)
}

func databaseLayer(dir, root, entrypoint string, d database) (*blob, error) {
	surplus := regexp.MustCompile(d.surplus)
	w := newLayer(dir)
	w.dir("etc/mysql", 0o755, 0)
	w.dir("etc/mysql/conf.d", 0o755, 0)
	w.text("etc/mysql/my.cnf", d.config)
	w.dir("docker-entrypoint-initdb.d", 0o755, 0)
	w.dir("var/lib/mysql-files", 0o750, mysqlID)
	// Containers may run as any account.
	for _, open := range []string{"var/lib/mysql", "run/mysqld"} {
		w.dir(open, 0o1777, mysqlID)
	}
	w.program(filepath.Join("usr", "local", "bin", "docker-entrypoint.sh"), entrypoint)
	debianTree(w, root, surplus.MatchString, fmt.Sprintf("mysql:%d:/var/lib/mysql", mysqlID))
	return w.close()
}
