package v1

import (
	"bytes"
	"encoding/json"

	"errors"
)

// MaxSettingLength is the maximum length, in characters, of a setting that is a string.
const MaxSettingLength = 8192

// A Setting is the value of a my.cnf setting, as text. In a manifest it can be a string, a number or a boolean. true
// and false become ON and OFF, because YAML reads an unquoted ON as true.
//
// +kubebuilder:validation:Schemaless
// +kubebuilder:pruning:PreserveUnknownFields
type Setting string

// UnmarshalJSON accepts a string, a number or a boolean, and stores it as text. The booleans become ON and OFF.
func (s *Setting) UnmarshalJSON(b []byte) error {
	switch b = bytes.TrimSpace(b); {
	case bytes.Equal(b, []byte("true")):
		*s = "ON"
	case bytes.Equal(b, []byte("false")):
		*s = "OFF"
	case len(b) > 0 && b[0] == '"':
		return json.Unmarshal(b, (*string)(s))
	case len(b) > 0 && (b[0] == '-' || b[0] >= '0' && b[0] <= '9'):
		*s = Setting(b)
	default:
		return errors.New("a setting must be a string, a number or a boolean. Write settings directly under config, " +
			"without a section such as mysqld. Write a list as one string")
	}
	return nil
}
