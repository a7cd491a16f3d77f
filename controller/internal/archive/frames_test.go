package archive

import (
	"archive/tar"
	"bytes"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/crossplane-mysql/crossplane-mysql/apis/agent"
)

// TestFrames checks that zstd frames of kinds that no backup contains are refused.
func TestFrames(t *testing.T) {
	raw := crafted{headers: []tar.Header{dir("./")}}.tar(t)
	encode := func(content []byte, options ...zstd.EOption) []byte {
		w, err := zstd.NewWriter(nil, options...)
		must(t, err)
		return w.EncodeAll(content, nil)
	}
	stream := func(content []byte) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b)
		must(t, err)
		for range 3 {
			_, _ = w.Write(content)
			_ = w.Flush()
		}
		must(t, w.Close())
		return b.Bytes()
	}
	good := encode(raw)
	cases := map[string][]byte{
		"Nothing":     {},
		"NotZstd":     []byte("this is no zstd file at all, just text"),
		"NoSize":      stream(raw),
		"TooLarge":    encode(make([]byte, chunkSize+1)),
		"Bomb":        encode(make([]byte, 1<<28)),
		"Skippable":   append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, good...),
		"HugeSkip":    append([]byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0xff}, good...),
		"Dictionary":  encode(raw, zstd.WithEncoderDictRaw(7, []byte("a dictionary of ours, long enough"))),
		"TrailingBit": append(bytes.Clone(good), 0),
		"Half":        good[:len(good)/2],
		"TwoAndHalf":  append(bytes.Clone(good), good[:len(good)-1]...),
	}
	for name, packed := range cases {
		t.Run(name, func(t *testing.T) {
			r, _ := crafted{}.place(t, packed)
			if _, err := r.Run(t.Context()); agent.CodeOf(err) != agent.ExitDamaged {
				t.Errorf("Run: %v", err)
			}
			if got := names(t, r.Volume); len(got) > 0 {
				t.Errorf("it left %q", got)
			}
		})
	}
}
