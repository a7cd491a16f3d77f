package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
)

// options are the settings for a new database, which are read from environment variables.
type options struct {
	rootPassword   string
	randomPassword bool
	emptyPassword  bool
	oneTime        bool
	rootHost       string

	database, user, password string
	skipTimeZones            bool
}

// env reads settings such as ROOT_PASSWORD from environment variables with one of several prefixes. The first prefix
// takes precedence.
type env struct {
	prefixes []string
	lookup   func(string) string
	readFile func(string) ([]byte, error)
}

// value returns the setting with the given name. The environment variable NAME_FILE can name a file that contains the
// value.
func (e env) value(name string) (string, error) {
	for _, p := range e.prefixes {
		plain, file := p+"_"+name, p+"_"+name+"_FILE"
		v, path := e.lookup(plain), e.lookup(file)
		switch {
		case v != "" && path != "":
			return "", fmt.Errorf("both %s and %s are set, but are exclusive", plain, file)
		case v != "":
			return v, nil
		case path == "":
			continue
		}
		b, err := e.readFile(path)
		if err != nil {
			return "", fmt.Errorf("cannot read %s: %w", file, err)
		}
		return strings.TrimRight(string(b), "\n"), nil
	}
	return "", nil
}

// flag reports whether the setting with the given name has any value, even one that means false, as in the official
// images.
func (e env) flag(name string) bool {
	for _, p := range e.prefixes {
		if e.lookup(p+"_"+name) != "" {
			return true
		}
	}
	return false
}

func readOptions(e env) (options, error) {
	o := options{
		randomPassword: e.flag("RANDOM_ROOT_PASSWORD"),
		emptyPassword:  e.flag("ALLOW_EMPTY_PASSWORD") || e.flag("ALLOW_EMPTY_ROOT_PASSWORD"),
		oneTime:        e.flag("ONETIME_PASSWORD"),
		skipTimeZones:  e.flag("INITDB_SKIP_TZINFO"),
	}
	for name, target := range map[string]*string{
		"ROOT_PASSWORD": &o.rootPassword, "ROOT_HOST": &o.rootHost,
		"DATABASE": &o.database, "USER": &o.user, "PASSWORD": &o.password,
	} {
		v, err := e.value(name)
		if err != nil {
			return options{}, err
		}
		*target = v
	}
	if o.rootHost == "" {
		o.rootHost = "%"
	}
	return o, o.check(e.prefixes[0])
}

func (o *options) check(prefix string) error {
	if o.rootPassword == "" && !o.emptyPassword && !o.randomPassword {
		return fmt.Errorf("database is uninitialized and password option is not specified\n"+
			"    You need to specify one of the following as an environment variable:\n"+
			"    - %[1]s_ROOT_PASSWORD\n    - %[1]s_ALLOW_EMPTY_PASSWORD\n    - %[1]s_RANDOM_ROOT_PASSWORD", prefix)
	}
	if o.user == "root" {
		return fmt.Errorf("%[1]s_USER=\"root\": %[1]s_USER and %[1]s_PASSWORD are for a regular user and cannot be used "+
			"for root; use %[1]s_ROOT_PASSWORD", prefix)
	}
	if o.user == "" && o.password != "" {
		logf("Warn", "%[1]s_PASSWORD is set without %[1]s_USER: no user is made.", prefix)
	}
	if o.user != "" && o.password == "" {
		logf("Warn", "%[1]s_USER is set without %[1]s_PASSWORD: no user is made.", prefix)
	}
	return nil
}

// choosePassword generates a random password for root, if the settings require one, and logs it. There is no other way
// to learn the password.
func (o *options) choosePassword() {
	if !o.randomPassword {
		return
	}
	o.rootPassword = rand.Text()
	logf("Note", "GENERATED ROOT PASSWORD: %s", o.rootPassword)
}

// environ returns the environment for the user's scripts. It includes values that were read from files, and the
// socket for the client.
func (o *options) environ(prefix, socket string) []string {
	return append(os.Environ(),
		prefix+"_ROOT_PASSWORD="+o.rootPassword,
		prefix+"_ROOT_HOST="+o.rootHost,
		prefix+"_DATABASE="+o.database,
		prefix+"_USER="+o.user,
		prefix+"_PASSWORD="+o.password,
		"MYSQL_UNIX_PORT="+socket,
	)
}
