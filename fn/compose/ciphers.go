package compose

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/crossplane-mysql/crossplane-mysql/fn/ciphers"
	"github.com/crossplane-mysql/crossplane-mysql/fn/mycnf"
)

// checkCiphers refuses TLS settings with which no client could log in, because no cipher fits the server's key.
func checkCiphers(r *resolved, path *field.Path) field.ErrorList {
	if !mayBeCertified(r.serverInput) {
		return nil
	}
	values := map[string]string{}
	keys := map[string]string{}
	for key, value := range r.spec.Config {
		name, _ := mycnf.OptionName(key)
		values[name], keys[name] = strings.ToLower(string(value)), key
	}
	if reason, name := ciphers.Refused(values); reason != "" {
		return field.ErrorList{field.Forbidden(path.Key(clipText(keys[name])), reason)}
	}
	return nil
}
