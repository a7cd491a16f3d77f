package datadir

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"
)

// A redo is a redo log in the format of MySQL 9.7.4. That server wrote all variants in the cases below. The tests
// with the tag mysqld in package archive check a real redo log.
type redo struct {
	format      uint32
	start       uint64
	flags       uint32
	checkpoints [2]uint64
	// blocks contains the number of bytes written to each block. The key is the position of the block in the log.
	blocks map[uint64]uint16
	size   int
	// spoil is the position of a byte that is changed after the log was written.
	spoil int
}

func (r redo) bytes() []byte {
	raw := make([]byte, logHeader+r.size)
	binary.BigEndian.PutUint32(raw, r.format)
	binary.BigEndian.PutUint64(raw[8:], r.start)
	copy(raw[16:], "MySQL 9.7.4")
	binary.BigEndian.PutUint32(raw[48:], r.flags)
	signingKey(raw[:logBlock])
	for i, offset := range []int{logBlock, 3 * logBlock} {
		binary.BigEndian.PutUint64(raw[offset+8:], r.checkpoints[i])
		signingKey(raw[offset : offset+logBlock])
	}
	for position, length := range r.blocks {
		block := raw[logHeader+position-r.start:][:logBlock]
		binary.BigEndian.PutUint32(block, uint32(1+position/logBlock%logNumbers))
		binary.BigEndian.PutUint16(block[4:], length)
		binary.BigEndian.PutUint32(block[8:], uint32(1+position/logBlock/logNumbers)) //nolint:gosec // A small number.
		signingKey(block)
	}
	if r.spoil != 0 {
		raw[r.spoil] ^= 1
	}
	return raw
}

func signingKey(block []byte) {
	binary.BigEndian.PutUint32(block[logChecksum:], crc32.Checksum(block[:logChecksum], castagnoli))
}

func TestHowStopped(t *testing.T) {
	const start = 16381952
	const position = start + 10*logBlock
	base := func(change func(*redo)) redo {
		r := redo{format: logFormat, start: start, checkpoints: [2]uint64{position - 4000, position + 244},
			blocks: map[uint64]uint16{position - logBlock: logBlock, position: 244}, size: 100 * logBlock}
		if change != nil {
			change(&r)
		}
		return r
	}
	cases := map[string]struct {
		reason  string
		flushed uint64
		log     redo
		none    bool
		known   bool
		clean   bool
	}{
		"Clean": {flushed: position + 244, log: base(nil), known: true, clean: true},
		"CleanFarOn": {
			reason:  "The block numbers start again after 2^30 blocks.",
			flushed: 1<<41 + position + 244,
			log: redo{
				format: logFormat, start: 1<<41 + start, checkpoints: [2]uint64{1<<41 + position + 244}, size: 100 * logBlock,
				blocks: map[uint64]uint16{1<<41 + position: 244},
			},
			known: true, clean: true,
		},
		"KilledUnderLoad": {
			reason: "Both log positions are equal, but the redo log continues after them.", flushed: position + 244,
			log: base(func(r *redo) { r.blocks[position], r.blocks[position+logBlock] = logBlock, 100 }), known: true,
		},
		"KilledIdle": {
			reason: "The server wrote a checkpoint after its start, so the log positions differ.", flushed: position - 4000,
			log: base(nil), known: true,
		},
		"FastShutdown2": {reason: "innodb_fast_shutdown=2 leaves the same state as a killed server.", flushed: position + 244,
			log: base(func(r *redo) { r.blocks[position] = 250 }), known: true},
		"EncryptedClean": {flushed: position + 244, log: base(func(r *redo) { r.blocks[position] = 244 | 0x8000 }),
			known: true, clean: true},
		"NoCheckpoint": {log: base(func(r *redo) { r.checkpoints = [2]uint64{} }), known: true},
		"NeverWhole": {reason: "The server was killed while it initialized the directory.", flushed: position + 244,
			log: base(func(r *redo) { r.flags = 4 }), known: true},
		"LoggingOff":     {flushed: position + 244, log: base(func(r *redo) { r.flags = 1 | 2 }), known: true},
		"FullFlagIsFine": {flushed: position + 244, log: base(func(r *redo) { r.flags = 8 }), known: true, clean: true},
		"TornBlock": {flushed: position + 244, log: base(func(r *redo) { r.spoil = logHeader + 10*logBlock + 20 }),
			known: true},
		"TornCheckpoint": {reason: "The newer checkpoint is damaged, so the older one must be used.", flushed: position + 244,
			log: base(func(r *redo) { r.spoil = 3*logBlock + 100 }), known: true},
		"TornHeader": {flushed: position + 244, log: base(func(r *redo) { r.spoil = 20 })},
		"OtherFormat": {reason: "MySQL before 8.0.30 writes a different format of the redo log.",
			flushed: position + 244, log: base(func(r *redo) { r.format = 5 })},
		"NewerFormat": {flushed: position + 244, log: base(func(r *redo) { r.format = 7 })},
		"NoLog":       {flushed: position + 244, none: true},
		"CheckpointInNoFile": {
			flushed: start + 200*logBlock, log: base(func(r *redo) { r.checkpoints[0] = start + 200*logBlock }), known: true,
		},
		"NextBlockNotBegun": {
			reason:  "The previous block is full, and the next block was not written in this round of the log.",
			flushed: position + logBlockHeader,
			log: base(func(r *redo) {
				r.checkpoints = [2]uint64{position + logBlockHeader}
				delete(r.blocks, position)
			}),
			known: true, clean: true,
		},
		"BlockIsGone": {flushed: position + 244, log: base(func(r *redo) { delete(r.blocks, position) }), known: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := directory(t, "#innodb_redo/#ib_redo9_tmp")
			write(t, dir, "ibdata1", binary.BigEndian.AppendUint64(make([]byte, flushLSN), tc.flushed))
			if !tc.none {
				write(t, dir, "#innodb_redo/#ib_redo5", tc.log.bytes())
			}
			got, err := HowStopped(dir)
			if err != nil || got.Known != tc.known || got.Clean != tc.clean || got.Reason == "" {
				t.Errorf("%s: %+v, %v; want known %v, clean %v", tc.reason, got, err, tc.known, tc.clean)
			}
		})
	}
}

// TestHowStoppedNever checks a directory whose server was killed before it wrote the first page.
func TestHowStoppedNever(t *testing.T) {
	for _, files := range [][]string{{}, {"auto.cnf"}, {"ibdata1"}} {
		got, err := HowStopped(directory(t, files...))
		if err != nil || !got.Known || got.Clean {
			t.Errorf("%v: %+v, %v", files, got, err)
		}
	}
}

func TestVersion(t *testing.T) {
	cases := map[string]struct {
		file, content, want string
	}{
		"MySQL": {"mysql_upgrade_history",
			`{"file_format":"1","upgrade_history":[{"version":"8.4.6","initialize":true},{"version":"9.7.4-2"}]}`, "9.7.4-2"},
		"MariaDB":  {"mariadb_upgrade_info", "10.11.18-MariaDB\n", "10.11.18-MariaDB"},
		"Old":      {"mysql_upgrade_info", "8.0.43\x00", "8.0.43"},
		"Nonsense": {"mysql_upgrade_history", `{`, ""},
		"Nothing":  {"auto.cnf", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			dir := directory(t)
			write(t, dir, tc.file, []byte(tc.content))
			if got := Version(dir, "", ""); got != tc.want {
				t.Errorf("Version: %q, want %q", got, tc.want)
			}
		})
	}
}

func FuzzHowStopped(f *testing.F) {
	f.Add(redo{format: logFormat, start: 8192, checkpoints: [2]uint64{8192 + 512 + 40},
		blocks: map[uint64]uint16{8192 + 512: 40}, size: 2048}.bytes(), uint64(8192+512+40))
	f.Fuzz(func(t *testing.T, log []byte, flushed uint64) {
		dir := directory(t)
		write(t, dir, "ibdata1", binary.BigEndian.AppendUint64(make([]byte, flushLSN), flushed))
		if err := dir.Mkdir(redoDir, 0o750); err != nil {
			t.Fatal(err)
		}
		write(t, dir, redoDir+"/#ib_redo0", log)
		if got, err := HowStopped(dir); err == nil && got.Clean && !got.Known {
			t.Errorf("clean, and not known: %+v", got)
		}
	})
}

func write(t *testing.T, dir *os.Root, name string, content []byte) {
	t.Helper()
	if err := dir.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
