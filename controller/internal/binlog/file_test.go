package binlog_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/test/fakelog"
)

// A recorder is a Visitor that stores the transactions that a Reader passes to it, so that a test can compare them.
type recorder struct {
	begins []binlog.Begin
	parts  [][]byte
	ends   int
	// most is the maximum number of transactions to record, or 0 for all.
	most int
}

func (r *recorder) Begin(b binlog.Begin) (bool, error) {
	if r.most > 0 && len(r.begins) == r.most {
		return false, nil
	}
	r.begins = append(r.begins, b)
	return true, nil
}

func (r *recorder) Part(raw []byte, isEnd bool) error {
	r.parts = append(r.parts, slices.Clone(raw))
	if isEnd {
		r.ends++
	}
	return nil
}

func (r *recorder) read(raw []byte) (bool, error) {
	in, err := binlog.NewReader(bytes.NewReader(raw))
	if err != nil {
		return false, err
	}
	return in.Read(r)
}

func (r *recorder) ids() []string {
	out := make([]string, 0, len(r.begins))
	for _, b := range r.begins {
		out = append(out, b.GTID.String())
	}
	return out
}

// realFile returns a file that a MySQL 9.7.4 server has written. It contains a compressed and a tagged transaction, a
// DDL statement, and an XA transaction.
func realFile(tb testing.TB) []byte {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "real.binlog"))
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

const realUUID = "49e1555d-ecd7-11f1-8f71-02fc00000001"

func TestReadRealFile(t *testing.T) {
	r, raw := &recorder{}, realFile(t)
	if complete, err := r.read(raw); err != nil || !complete {
		t.Fatal(complete, err)
	}
	want := []string{realUUID + ":2", realUUID + ":3", realUUID + ":tag_a:1", realUUID + ":4", realUUID + ":5", realUUID + ":6"}
	if diff := cmp.Diff(want, r.ids()); diff != "" || r.ends != len(want) {
		t.Errorf("%d ends, -want +got:\n%s", r.ends, diff)
	}
	if !bytes.Contains(raw, bytes.Join(r.parts, nil)) {
		t.Error("the parts are not the bytes of the file")
	}
	for i, b := range r.begins {
		if i > 0 && b.Time <= r.begins[i-1].Time {
			t.Errorf("transaction %s is not later than its predecessor", b.GTID)
		}
	}
}

// TestWriteFile checks that a file with the same transactions can be written and read again.
func TestWriteFile(t *testing.T) {
	first := &recorder{}
	in, err := binlog.NewReader(bytes.NewReader(realFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(first); err != nil {
		t.Fatal(err)
	}
	if got := in.Format().Version(); !strings.HasPrefix(got, "9.7.4") {
		t.Errorf("version %q", got)
	}
	for _, before := range []string{"", realUUID + ":1", realUUID + ":1:tag_b:1-5:7," + uuidA + ":1-3:9"} {
		var out bytes.Buffer
		w, err := in.Format().NewFile(&out, parse(t, before))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range first.parts {
			if _, err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		if w.Bytes != int64(out.Len()) {
			t.Errorf("%d bytes, want %d", w.Bytes, out.Len())
		}
		second := &recorder{}
		if complete, err := second.read(out.Bytes()); err != nil || !complete {
			t.Fatal(complete, err)
		}
		if diff := cmp.Diff(first, second, cmp.AllowUnexported(recorder{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestReadStops(t *testing.T) {
	r := &recorder{most: 3}
	if complete, err := r.read(realFile(t)); err != nil || complete || r.ends != 3 {
		t.Errorf("%v, %v, %d transactions", complete, err, r.ends)
	}
}

// gtid returns a GTID of a fake server.
func gtid(n int64) binlog.GTID { return binlog.GTID{Source: uuidA, Number: n} }

// edit returns a file with one changed event. The function must not change the size.
func edit(t *testing.T, raw []byte, number int, change func(event []byte)) []byte {
	t.Helper()
	raw = slices.Clone(raw)
	offset := len(fakelog.Magic)
	for ; number > 0; number-- {
		offset += int(binary.LittleEndian.Uint32(raw[offset+9:]))
	}
	event := raw[offset : offset+int(binary.LittleEndian.Uint32(raw[offset+9:]))]
	change(event)
	binary.LittleEndian.PutUint32(event[len(event)-4:], crc32.ChecksumIEEE(event[:len(event)-4]))
	return raw
}

// TestReadRefuses checks the error for each kind of damage that has a valid checksum.
func TestReadRefuses(t *testing.T) {
	raw, err := fakelog.File(parse(t, uuidA+":1-4"), fakelog.NewTransaction(gtid(5), 1000, []byte("one")),
		fakelog.NewTransaction(gtid(6), 2000, []byte("two"), []byte("three")))
	if err != nil {
		t.Fatal(err)
	}
	if complete, err := (&recorder{}).read(raw); err != nil || !complete {
		t.Fatal(complete, err)
	}
	kind := func(k byte) func([]byte) { return func(e []byte) { e[4] = k } }
	const format, previous, begin, query = 0, 1, 2, 3
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"Empty":          {nil, "cannot read the binary log"},
		"NoMagic":        {[]byte("\xfebim"), "is not a binary log"},
		"NoFormat":       {edit(t, raw, format, kind(4)), "does not begin with a format description"},
		"Version3":       {edit(t, raw, format, func(e []byte) { e[19] = 3 }), "only version 4 is supported"},
		"Algorithm":      {edit(t, raw, format, func(e []byte) { e[len(e)-5] = 2 }), "unknown checksum algorithm"},
		"EndsInEvent":    {raw[:len(raw)-1], "ends within an event"},
		"EndsInHeader":   {raw[:len(raw)-26], "ends within an event"},
		"EndsInside":     {raw[:len(raw)-31], "before the end of a transaction"},
		"Incident":       {edit(t, raw, begin, kind(26)), "lacks transactions"},
		"Anonymous":      {edit(t, raw, begin, kind(34)), "gtid_mode is not ON"},
		"Outside":        {edit(t, raw, begin, kind(2)), "is outside of a transaction"},
		"BeginInside":    {edit(t, raw, query, kind(33)), "before the end of the previous one"},
		"FormatInside":   {edit(t, raw, query, kind(15)), "begins within a transaction"},
		"NumberZero":     {edit(t, raw, begin, func(e []byte) { clear(e[36:44]) }), "has transaction number 0"},
		"NumberNegative": {edit(t, raw, begin, func(e []byte) { e[43] = 0xff }), "has transaction number -"},
		"NoTime":         {edit(t, raw, begin, func(e []byte) { clear(e[61:68]) }), "MySQL 8.0.2 or later is required"},
		"NoLength":       {edit(t, raw, begin, func(e []byte) { e[68] = 0 }), "MySQL 8.0.2 or later is required"},
		"TooLong":        {edit(t, raw, begin, func(e []byte) { e[68]++ }), "before the end of the previous one"},
		"TooShort":       {edit(t, raw, begin, func(e []byte) { e[68]-- }), "longer than its GTID event says"},
		"PreviousInside": {edit(t, raw, previous, kind(33)), "malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := (&recorder{}).read(tc.raw); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestFits checks which formats can be in the same file.
func TestFits(t *testing.T) {
	in, err := binlog.NewReader(bytes.NewReader(realFile(t)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Read(&recorder{}); err != nil {
		t.Fatal(err)
	}
	// The second file was created at another time.
	later := edit(t, realFile(t), 0, func(e []byte) { e[0], e[71] = e[0]+1, e[71]+1 })
	other, err := binlog.NewReader(bytes.NewReader(later))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Read(&recorder{}); err != nil {
		t.Fatal(err)
	}
	one, two := fakelog.Format(true), fakelog.Format(false)
	for name, tc := range map[string]struct {
		a, b binlog.Format
		want bool
	}{
		"Same":            {one, one, true},
		"OtherFile":       {in.Format(), other.Format(), true},
		"OtherChecksum":   {one, two, false},
		"OtherServer":     {one, in.Format(), false},
		"UnknownFormat":   {one, binlog.Format{}, false},
		"UnknownFormats":  {binlog.Format{}, binlog.Format{}, false},
		"WithoutChecksum": {two, two, true},
	} {
		if got := tc.a.Fits(tc.b); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

var errVisitor = errors.New("visitor")

type failing struct{ inBegin bool }

func (f failing) Begin(binlog.Begin) (bool, error) {
	if f.inBegin {
		return false, errVisitor
	}
	return true, nil
}

func (failing) Part([]byte, bool) error { return errVisitor }

func TestReadReturnsErrorOfVisitor(t *testing.T) {
	for _, f := range []failing{{true}, {false}} {
		in, err := binlog.NewReader(bytes.NewReader(realFile(t)))
		if err != nil {
			t.Fatal(err)
		}
		if complete, err := in.Read(f); complete || !errors.Is(err, errVisitor) {
			t.Errorf("%+v: %v, %v", f, complete, err)
		}
	}
}

// allocated returns the bytes that a function allocates.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// maxAllocation is the limit for the memory to read a damaged small file.
const maxAllocation = 4 << 20

// TestReadMutatedFile changes each byte of a real file in turn. The checksums must detect each change, except for the
// few bytes that they do not cover.
func TestReadMutatedFile(t *testing.T) {
	raw := realFile(t)
	for i := range raw {
		for _, value := range []byte{0, 1, 0x7f, 0x80, 0xff, raw[i] ^ 1, raw[i] ^ 0x80} {
			if value == raw[i] {
				continue
			}
			changed := slices.Clone(raw)
			changed[i] = value
			var err error
			if size := allocated(func() { _, err = (&recorder{}).read(changed) }); size > maxAllocation {
				t.Errorf("byte %d = %#x: %d bytes were allocated", i, value, size)
			}
			if err == nil {
				t.Errorf("byte %d = %#x is not detected", i, value)
			}
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(realFile(f), true)
	f.Add(realFile(f)[:300], false)
	f.Fuzz(func(t *testing.T, raw []byte, reseal bool) {
		if reseal { // Without valid checksums, hardly any input reaches the parsers.
			raw = slices.Clone(raw)
			for offset := len(fakelog.Magic); offset+19 <= len(raw); {
				size := int(binary.LittleEndian.Uint32(raw[offset+9:]))
				if size < 23 || size > len(raw)-offset {
					break
				}
				binary.LittleEndian.PutUint32(raw[offset+size-4:], crc32.ChecksumIEEE(raw[offset:offset+size-4]))
				offset += size
			}
		}
		r := &recorder{}
		var complete bool
		var err error
		limit := uint64(maxAllocation + 64*len(raw))
		if size := allocated(func() { complete, err = r.read(raw) }); size > limit {
			t.Fatalf("%d bytes were allocated for an input of %d bytes", size, len(raw))
		}
		if err == nil && complete && r.ends != len(r.begins) {
			t.Fatalf("%d transactions begin and %d end", len(r.begins), r.ends)
		}
		for _, b := range r.begins {
			if _, perr := binlog.ParseGTID(b.GTID.String()); perr != nil {
				t.Fatalf("%s is not a GTID: %v", b.GTID, perr)
			}
		}
	})
}
