// Package ciphers decides whether the TLS settings of MySQL allow clients to log in to a server with the product's
// certificate.
package ciphers

import (
	"slices"
	"strings"
)

// The server's certificate has an ECDSA key. The controller, which supports TLS 1.2 and 1.3, must be able to log in
// (controller/internal/certificate and controller/internal/mysqld/sql).

// servedSuites are the cipher suites of TLS 1.3 that the controller supports (crypto/tls in Go).
var servedSuites = []string{"tls_aes_128_gcm_sha256", "tls_aes_256_gcm_sha384", "tls_chacha20_poly1305_sha256"}

// Refused returns the reason why the controller cannot log in with the given TLS settings, and the name of the
// setting that prevents it. Both are empty if the controller can log in.
func Refused(values map[string]string) (reason, name string) {
	versions, hasVersions := values["tls_version"]
	list, hasCiphers := values["ssl_cipher"]
	suites, hasSuites := values["tls_ciphersuites"]
	has12 := !hasVersions || hasToken(versions, ",", "tlsv1.2")
	has13 := !hasVersions || hasToken(versions, ",", "tlsv1.3")
	fits12 := has12 && (!hasCiphers || fitsKey(list))
	fits13 := has13 && (!hasSuites ||
		slices.ContainsFunc(servedSuites, func(s string) bool { return hasToken(suites, ":", s) }))
	switch {
	case fits12 || fits13:
		return "", ""
	case !has12 && !has13:
		return "must contain TLSv1.2 or TLSv1.3, or no client can log in", "tls_version"
	case has12 && hasCiphers:
		return "contains no cipher for the ECDSA key of the server's certificate. Add ECDHE-ECDSA-AES256-GCM-SHA384, or " +
			"allow TLSv1.3", "ssl_cipher"
	}
	return "contains no cipher suite that the controller supports. Add TLS_AES_256_GCM_SHA384, or allow TLSv1.2",
		"tls_ciphersuites"
}

func hasToken(list, separator, token string) bool {
	return slices.ContainsFunc(strings.Split(list, separator), func(t string) bool {
		return strings.TrimSpace(t) == token
	})
}

// otherKeys are OpenSSL keywords for ciphers that do not work with an ECDSA key (openssl-ciphers(1)).
var otherKeys = []string{"", "rsa", "arsa", "krsa", "dss", "adss", "psk", "apsk", "kpsk", "anull", "enull", "null",
	"adh", "aecdh", "srp", "kdhe", "dhe", "edh", "kedh"}

// fitsKey reports whether a list of ciphers may contain a cipher that works with an ECDSA key. An OpenSSL keyword for
// a group of ciphers is assumed to include one, unless the keyword is in otherKeys.
func fitsKey(list string) bool {
	tokens := strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune(":, ", r) })
	if slices.ContainsFunc(tokens,
		func(t string) bool { return slices.Contains([]string{"!ecdsa", "!aecdsa", "!all"}, t) }) {
		return false
	}
	return slices.ContainsFunc(tokens, func(t string) bool {
		switch {
		case strings.ContainsAny(t[:1], "!-+@"):
			return false
		case strings.Contains(t, "-") || strings.Contains(t, "+"):
			return strings.Contains(t, "ecdsa")
		}
		return !slices.Contains(otherKeys, t)
	})
}
