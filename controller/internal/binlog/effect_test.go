package binlog

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// rawEvent returns an event without a checksum.
func rawEvent(kind byte, body []byte) []byte {
	out := make([]byte, headerSize, headerSize+len(body))
	out[4] = kind
	binary.LittleEndian.PutUint32(out[9:], uint32(headerSize+len(body))) //nolint:gosec // A test.
	return append(out, body...)
}

func queryEvent(schema, text string) []byte {
	body := make([]byte, 13)
	body[8] = byte(len(schema)) //nolint:gosec // The names of this test are short.
	body[11] = 3                // The length of the variables.
	return rawEvent(typeQuery, slices.Concat(body, []byte("abc"), []byte(schema), []byte{0}, []byte(text)))
}

func tableEvent(id byte, schema, table string) []byte {
	lengths := [2]byte{byte(len(schema)), byte(len(table))} //nolint:gosec // As above.
	return rawEvent(typeTableMap, slices.Concat([]byte{id, 0, 0, 0, 0, 0, 1, 0, lengths[0]}, []byte(schema),
		[]byte{0, lengths[1]}, []byte(table), []byte{0, 1, 3}))
}

func rowsEvent(kind, id byte, size int) []byte {
	return rawEvent(kind, append([]byte{id, 0, 0, 0, 0, 0, 1, 0}, make([]byte, size-8)...))
}

func payloadEvent(t *testing.T, method byte, events ...[]byte) []byte {
	t.Helper()
	raw := slices.Concat(events...)
	if method == 0 {
		encoder, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		raw = encoder.EncodeAll(raw, nil)
	}
	field := []byte{1, 3, 0xfc, 1, 0, 2, 1, method, 3, 1, 9, 0}
	if method == 255 {
		field = []byte{2, 3, 0xfc, 255, 0, 0}
	}
	return rawEvent(typePayload, slices.Concat(field, raw))
}

func readEffects(events ...[]byte) (out []Effect, err error) {
	var r Effects
	for _, e := range events {
		if err := r.Read(Part{Raw: e}, func(one Effect) { out = append(out, one) }); err != nil {
			return out, err
		}
	}
	return out, nil
}

// TestEffects checks the effects that are read from artificial events. TestRealLog reads the events of a real server.
func TestEffects(t *testing.T) {
	transaction := [][]byte{queryEvent("shop", "BEGIN"), tableEvent(1, "shop", "a"), tableEvent(2, "shop", "b"),
		rowsEvent(typeDeleteRows, 1, 30),
		rowsEvent(typeWriteRows, 2, 20), rowsEvent(typePartialUpdate, 1, 10), rawEvent(16, make([]byte, 8))}
	want := []Effect{{Kind: EffectDelete, Schema: "shop", Table: "a", Size: 30}, {Kind: EffectInsert, Schema: "shop", Table: "b",
		Size: 20},
		{Kind: EffectUpdate, Schema: "shop", Table: "a", Size: 10}}
	for name, events := range map[string][][]byte{
		"Plain": transaction, "Compressed": {payloadEvent(t, 0, transaction...)}, "Uncompressed": {payloadEvent(t, 255, transaction...)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readEffects(events...)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
	got, err := readEffects(queryEvent("shop", "DROP TABLE a"))
	if diff := cmp.Diff([]Effect{{Kind: EffectStatement, Schema: "shop", Statement: "DROP TABLE a"}}, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := readEffects(rowsEvent(typeDeleteRows, 1, 30)); err == nil {
		t.Error("rows of an unknown table are accepted")
	}
}

// TestEffectsOfDamage checks that a damaged event causes no panic.
func TestEffectsOfDamage(t *testing.T) {
	all := [][]byte{queryEvent("shop", "DROP TABLE a"), tableEvent(1, "shop", "a"), rowsEvent(typeDeleteRows, 1, 30),
		payloadEvent(t, 0, tableEvent(1, "shop", "a"), rowsEvent(typeDeleteRows, 1, 30)), payloadEvent(t, 255, tableEvent(1, "s", "t"))}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // A test.
	for range 20000 {
		e := bytes.Clone(all[r.IntN(len(all))])
		for range 1 + r.IntN(3) {
			e[5+r.IntN(len(e)-5)] = byte(r.IntN(256)) //nolint:gosec // A byte.
		}
		_, _ = readEffects(tableEvent(1, "shop", "a"), e[:headerSize+r.IntN(len(e)-headerSize+1)])
	}
}
