package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// program returns a minimal ELF file for a machine.
func program(t *testing.T, m elf.Machine) []byte {
	t.Helper()
	h := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(m),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64,
	}
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, h); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func mustImage(t *testing.T, bin []byte, arch string) v1.Image {
	t.Helper()
	img, err := image(bin, arch, "v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestCheckRuntime checks that the image is correct, and that checkRuntime finds errors. The push tests use
// checkRuntime.
func TestCheckRuntime(t *testing.T) {
	amd64, arm64 := program(t, elf.EM_X86_64), program(t, elf.EM_AARCH64)
	cases := map[string]struct {
		reason string
		image  v1.Image
		err    string
	}{
		"Right": {"The image that this program builds must be accepted.", mustImage(t, arm64, "arm64"), ""},
		"OtherLabel": {"The image has the label of another architecture, so it would run on the wrong nodes.",
			mustImage(t, arm64, "amd64"),
			"linux/amd64"},
		"OtherCode": {"The program must be built for the architecture of the label.",
			mustImage(t, amd64, "arm64"), "made for EM_X86_64"},
		"NoProgram": {"The program is truncated.", mustImage(t, arm64[:10], "arm64"), "no program"},
		"Empty":     {"The image without the function has no entrypoint.", empty.Image, "wrong image config"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := checkRuntime(tc.image, "arm64")
			if (tc.err != "") != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("\n%s\ncheckRuntime(): want %q in the error, got %v", tc.reason, tc.err, err)
			}
		})
	}
}

func TestImageIsReproducible(t *testing.T) {
	bin := program(t, elf.EM_X86_64)
	a, err := mustImage(t, bin, "amd64").Digest()
	if err != nil {
		t.Fatal(err)
	}
	b, err := mustImage(t, bin, "amd64").Digest()
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("the same program gave two images, %s and %s", a, b)
	}
}

// TestWriteImage reads the tarball as the CLI does.
func TestWriteImage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"function": string(program(t, elf.EM_X86_64))})
	target := filepath.Join(dir, "image.tar")
	if err := writeImage(target, filepath.Join(dir, "function"), "amd64", "v0.1.0"); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkRuntime(img, "amd64"); err != nil {
		t.Error(err)
	}
}
