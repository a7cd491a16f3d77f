//go:build linux

package main

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

	"github.com/crossplane-mysql/crossplane-mysql/test/cluster/image"
)

// mysqlID is the user and group ID of the server in the official images.
const mysqlID = 999

// recipes contains the recipes of the images of database servers and other servers for the tests.
type recipes struct{ *image.Builder }

// A database describes the image of a MySQL or MariaDB server, which contains Debian packages and the tests'
// entrypoint.
type database struct {
	names    []string
	suite    string
	packages []string
	alone    []string // Packages that are installed without their dependencies.
	daemon   string
	version  string // The version in the image's name.
	env      []string
	config   string
	// surplus matches files in the packages that neither a server nor a test needs.
	surplus string
	ports   []string
}

const serverConfig = `# As the official image has it, but for the first three: a server fills 300 MiB less at each start, of which tests have
# many.
[%s]
performance-schema=OFF
innodb-log-buffer-size=1M
innodb-buffer-pool-size=32M
host-cache-size=0
skip-name-resolve
datadir=/var/lib/mysql
socket=/var/run/mysqld/mysqld.sock
pid-file=/var/run/mysqld/mysqld.pid
%s
!includedir /etc/mysql/conf.d/
`

// mysql is the recipe of MySQL from Debian unstable, which is the only Debian release with MySQL. The image also has
// the names of other versions, because examples use them.
func (r recipes) mysql(ctx context.Context) (image.Recipe, error) {
	return r.database(ctx, database{
		names: []string{image.DockerHub + "mysql:9.7", image.DockerHub + "mysql:9", image.DockerHub + "mysql:latest",
			image.DockerHub + "mysql:8.4", image.DockerHub + "mysql:8.0", image.DockerHub + "mysql:5.7"},
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

// mariadb is the recipe of MariaDB from Debian 12. Clusters use this image.
func (r recipes) mariadb(ctx context.Context) (image.Recipe, error) {
	return r.mariadbOf(ctx, "bookworm", "10.11", "")
}

// mariadb105 is the recipe of MariaDB from Debian 11, in which the package names contain the release series.
func (r recipes) mariadb105(ctx context.Context) (image.Recipe, error) {
	return r.mariadbOf(ctx, "bullseye", "10.5", "-10.5")
}

// mariadb118 is the recipe of MariaDB from Debian 13.
func (r recipes) mariadb118(ctx context.Context) (image.Recipe, error) {
	return r.mariadbOf(ctx, "trixie", "11.8", "")
}

// mariadbOf returns the recipe of MariaDB from a Debian suite. series is the release series, and suffix is the end of
// the package names.
func (r recipes) mariadbOf(ctx context.Context, suite, series, suffix string) (image.Recipe, error) {
	return r.database(ctx, database{
		names:    []string{image.DockerHub + "mariadb:" + series},
		suite:    suite,
		packages: []string{"mariadb-server-core" + suffix, "mariadb-client-core" + suffix},
		alone:    []string{"mariadb-server" + suffix}, // This package contains the plugins. Its dependencies are not needed.
		daemon:   "mariadbd",
		version:  series,
		env:      []string{"LANG=C.UTF-8", "MARIADB_MAJOR=" + series},
		config:   fmt.Sprintf(serverConfig, "mariadbd", ""),
		surplus:  `^usr/bin/(aria_.*|galera_.*|innochecksum|mariadb-check|mariadb-service-convert|mariadbd-.*|myisam.*|mysqlcheck|mysqld_.*|wsrep_.*)$`,
		ports:    []string{"3306/tcp"},
	})
}

func (r recipes) database(ctx context.Context, d database) (image.Recipe, error) {
	entrypoint, err := r.Compile(ctx, "test/images/entrypoint")
	if err != nil {
		return image.Recipe{}, err
	}
	sum, err := image.FileSum(entrypoint)
	if err != nil {
		return image.Recipe{}, err
	}
	d.packages = slices.Concat(d.packages, image.BasePackages, []string{"tzdata", "util-linux", "zstd"})
	return image.Recipe{
		Names:  d.names,
		Inputs: []string{fmt.Sprintf("%q", d), image.Unneeded.String(), sum},
		Build: func(ctx context.Context, dir string) (mutate.Appendable, error) {
			return r.buildDatabase(ctx, dir, entrypoint, d)
		},
	}, nil
}

func (r recipes) buildDatabase(ctx context.Context, dir, entrypoint string, d database) (v1.Image, error) {
	root, err := r.Debian(ctx, dir, d.suite, d.packages, d.alone...)
	if err != nil {
		return nil, err
	}
	version, err := image.InChroot(ctx, root, d.daemon, "--version")
	if err != nil {
		return nil, err
	}
	if !strings.Contains(version, "Ver "+d.version+".") {
		return nil, fmt.Errorf("cannot use %s of Debian's %s: it is %q instead of %s", d.daemon, d.suite,
			strings.TrimSpace(version), d.version)
	}
	l, err := databaseLayer(dir, root, entrypoint, d)
	if err != nil {
		return nil, err
	}
	ports := map[string]struct{}{}
	for _, p := range d.ports {
		ports[p] = struct{}{}
	}
	return image.NewImage(runtime.GOARCH, v1.Config{
		Entrypoint:   []string{"docker-entrypoint.sh"},
		Cmd:          []string{d.daemon},
		Env:          append([]string{image.SearchPath}, d.env...),
		ExposedPorts: ports,
		Volumes:      map[string]struct{}{"/var/lib/mysql": {}},
	}, l)
}

func databaseLayer(dir, root, entrypoint string, d database) (v1.Layer, error) {
	surplus := regexp.MustCompile(`^etc/mysql$|` + d.surplus) // The image has its own configuration.
	w := image.NewLayer(dir)
	w.Dir("etc/mysql", 0o755, 0)
	w.Dir("etc/mysql/conf.d", 0o755, 0)
	w.Text("etc/mysql/my.cnf", d.config)
	w.Dir("docker-entrypoint-initdb.d", 0o755, 0)
	w.Dir("var/lib/mysql-files", 0o750, mysqlID)
	// A container may run with any user ID.
	for _, open := range []string{"var/lib/mysql", "run/mysqld"} {
		w.Dir(open, 0o1777, mysqlID)
	}
	w.Program(filepath.Join("usr", "local", "bin", "docker-entrypoint.sh"), entrypoint)
	w.Debian(root, surplus.MatchString, fmt.Sprintf("mysql:%d:/var/lib/mysql", mysqlID))
	return w.Close()
}
