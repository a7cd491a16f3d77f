package store

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

type entry struct {
	Name string `json:"name"`
	Size int64  `json:"size,omitempty"`
}

func TestSign(t *testing.T) {
	key, other := NewSigningKey(), NewSigningKey()
	raw, err := key.Sign("v1/a/manifest.json", entry{Name: "<a & b>", Size: 1 << 60})
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	signedTwice := append([]byte(nil), raw...)
	for name, c := range map[string]struct {
		key    SigningKey
		object string
		raw    []byte
		says   string
	}{
		"Whole":      {key, "v1/a/manifest.json", raw, ""},
		"Reformated": {key, "v1/a/manifest.json", indented.Bytes(), ""},
		"Moved":      {key, "v1/b/manifest.json", signedTwice, "its signature is not valid"},
		"OtherKey":   {other, "v1/a/manifest.json", raw, "its signature is not valid"},
		"Changed": {key, "v1/a/manifest.json",
			bytes.Replace(raw, []byte("1152921504606846976"), []byte("1152921504606846977"), 1), "its signature is not valid"},
		"NoSeal":    {key, "v1/a/manifest.json", []byte(`{"content":{"name":"a"}}`), "its signature is not valid"},
		"NoContent": {key, "v1/a/manifest.json", []byte(`{}`), "cannot be read"},
		"NoJSON":    {key, "v1/a/manifest.json", []byte("<html>"), "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			var got entry
			err := c.key.Open(c.object, c.raw, &got)
			switch {
			case c.says == "" && (err != nil || got != entry{"<a & b>", 1 << 60}):
				t.Errorf("want what was sealed, got %v, %v", got, err)
			case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
				t.Errorf("want %q, got %v", c.says, err)
			case c.says != "" && got != entry{}:
				t.Errorf("nothing of it may be used, got %v", got)
			}
		})
	}
	if second, err := ParseSigningKey(key.Text()); err != nil || second != key {
		t.Errorf("want the same key, got %v", err)
	}
	for _, s := range []string{"", "AAAA", "no Base64!"} {
		if _, err := ParseSigningKey(s); err == nil {
			t.Errorf("%q is no key", s)
		}
	}
}

func FuzzOpen(f *testing.F) {
	key := NewSigningKey()
	raw, err := key.Sign("k", entry{Name: "a"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add([]byte(`{"content":{"name":"b"},"hmacSha256":"AAAA"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var got entry
		if err := key.Open("k", raw, &got); err == nil && got != (entry{Name: "a"}) {
			t.Errorf("%q opens as %v", raw, got)
		}
	})
}
