package ciphers

import "testing"

// TestCiphersFitTheKey checks which settings let the controller log in. The server's certificate has an ECDSA key.
func TestCiphersFitTheKey(t *testing.T) {
	cases := map[string]struct {
		settings map[string]string
		blames   string
	}{
		"None":    {},
		"OldNone": {map[string]string{"tls_version": ""}, "tls_version"},
		"TooOld":  {map[string]string{"tls_version": "tlsv1,tlsv1.1"}, "tls_version"},
		"RSAOnly": {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256:aes128-sha"},
			"ssl_cipher"},
		"KeyExchange": {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "arsa"}, "ssl_cipher"},
		"Forbidden":   {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "high:!ecdsa"}, "ssl_cipher"},
		"Empty":       {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": ""}, "ssl_cipher"},
		"ECDSA": {map[string]string{"tls_version": "tlsv1.2",
			"ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256:ecdhe-ecdsa-aes128-gcm-sha256"}, ""},
		"Words":      {map[string]string{"tls_version": "tlsv1.2", "ssl_cipher": "high:!anull"}, ""},
		"NewerHelps": {map[string]string{"ssl_cipher": "ecdhe-rsa-aes128-gcm-sha256"}, ""},
		"NoSuite":    {map[string]string{"tls_version": "tlsv1.3", "tls_ciphersuites": ""}, "tls_ciphersuites"},
		"UnknownSuite": {map[string]string{"tls_version": "tlsv1.3", "tls_ciphersuites": "tls_aes_128_ccm_sha256"},
			"tls_ciphersuites"},
		"Suite": {map[string]string{"tls_version": "tlsv1.3",
			"tls_ciphersuites": "tls_aes_128_ccm_sha256:tls_aes_256_gcm_sha384"}, ""},
		"NeitherFits":   {map[string]string{"ssl_cipher": "aes128-sha", "tls_ciphersuites": ""}, "ssl_cipher"},
		"OlderHelps":    {map[string]string{"tls_ciphersuites": ""}, ""},
		"SpacesBetween": {map[string]string{"tls_version": "tlsv1.2, tlsv1.3", "ssl_cipher": "aes128-sha"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if reason, got := Refused(tc.settings); got != tc.blames {
				t.Errorf("%v blames %q with %q, want %q", tc.settings, got, reason, tc.blames)
			}
		})
	}
}
