package archive

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// benchBytes is the size of the data. Its pages resemble those of InnoDB: a header, rows with repeated text and
// random numbers, and a third of the page empty.
const benchBytes = 256 << 20

func benchPlace(b *testing.B) place {
	b.Helper()
	p := place{data: filepath.Join(b.TempDir(), "v"), backup: b.TempDir()}
	p.put(b, "ibdata1", nil)
	f, err := os.OpenFile(filepath.Join(p.data, "data", "ibdata1"), os.O_WRONLY, 0)
	must(b, err)
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same data each time.
	page := make([]byte, 16<<10)
	for n := range benchBytes / len(page) {
		clear(page)
		binary.BigEndian.PutUint32(page[4:], uint32(n))
		for offset := 120; offset < len(page)*2/3; offset += 100 {
			binary.BigEndian.PutUint64(page[offset:], r.Uint64())
			binary.BigEndian.PutUint64(page[offset+8:], r.Uint64())
			copy(page[offset+20:], "Order of somebody, to be delivered to somewhere, note ")
		}
		_, err := f.Write(page)
		must(b, err)
	}
	must(b, f.Close())
	return p
}

func BenchmarkBackup(b *testing.B) {
	p := benchPlace(b)
	b.SetBytes(benchBytes)
	for b.Loop() {
		must(b, os.RemoveAll(filepath.Dir(p.archive())))
		_, err := p.newBackup().Run(b.Context())
		must(b, err)
	}
	resident(b)
}

func BenchmarkRestore(b *testing.B) {
	p := benchPlace(b)
	_, err := p.newBackup().Run(b.Context())
	must(b, err)
	b.SetBytes(benchBytes)
	for b.Loop() {
		r := p.newRestore(b)
		_, err := r.Run(b.Context())
		must(b, err)
		must(b, os.RemoveAll(r.Volume))
	}
	resident(b)
}

// resident reports the maximum resident memory of this process.
func resident(b *testing.B) {
	b.Helper()
	u := syscall.Rusage{}
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	b.ReportMetric(float64(u.Maxrss)/1024, "MiB-resident")
}
