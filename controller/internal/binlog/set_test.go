package binlog_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/binlog"
)

const (
	uuidA = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	uuidB = "4e11fa47-71ca-11e1-9e33-c80aa9429562"
)

func parse(t *testing.T, text string) binlog.Set {
	t.Helper()
	s, err := binlog.ParseSet(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseSet(t *testing.T) {
	for name, tc := range map[string]struct {
		text, want string
		// broken is a part of the error that ParseSet must return, or "" if the text is valid.
		broken string
	}{
		"Empty":           {text: "", want: ""},
		"One":             {text: uuidA + ":5", want: uuidA + ":5"},
		"LineFeeds":       {text: uuidA + ":1-5,\n" + uuidB + ":7", want: uuidA + ":1-5," + uuidB + ":7"},
		"Touching":        {text: uuidA + ":1-5:6:8-9", want: uuidA + ":1-6:8-9"},
		"Overlapping":     {text: uuidA + ":4-9:1-5", want: uuidA + ":1-9"},
		"Tag":             {text: uuidA + ":1-5:7:tag_a:1-2:b:4", want: uuidA + ":1-5:7," + uuidA + ":b:4," + uuidA + ":tag_a:1-2"},
		"OnlyTag":         {text: uuidA + ":tag_a:1", want: uuidA + ":tag_a:1"},
		"TagOfUUID":       {text: uuidA + ":1:x:1," + uuidA + ":2:x:2", want: uuidA + ":1-2," + uuidA + ":x:1-2"},
		"UpperCase":       {text: strings.ToUpper(uuidA) + ":1", want: uuidA + ":1"},
		"Spaces":          {text: " " + uuidA + ":1 , " + uuidB + ": 2 - 3", want: uuidA + ":1," + uuidB + ":2-3"},
		"NoNumbers":       {text: uuidA, broken: "is not a GTID set"},
		"NoUUID":          {text: "x:1", broken: "is not a GTID set"},
		"Zero":            {text: uuidA + ":0", broken: "is not an interval"},
		"Backwards":       {text: uuidA + ":5-4", broken: "is not an interval"},
		"Negative":        {text: uuidA + ":-4", broken: "is not an interval"},
		"TooLarge":        {text: uuidA + ":9223372036854775807", broken: "is not an interval"},
		"Overflow":        {text: uuidA + ":9223372036854775808", broken: "is not an interval"},
		"TagTooLong":      {text: uuidA + ":" + strings.Repeat("a", 33) + ":1", broken: "is not an interval"},
		"TooLong":         {text: strings.Repeat(" ", binlog.MaxSet+1), broken: "the maximum is 16384 bytes"},
		"TagWithoutRange": {text: uuidA + ":tag", broken: "is not a GTID set"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := binlog.ParseSet(tc.text)
			switch {
			case tc.broken != "" && (err == nil || !strings.Contains(err.Error(), tc.broken)):
				t.Fatalf("error %v, want %q", err, tc.broken)
			case tc.broken == "" && err != nil:
				t.Fatal(err)
			case tc.broken == "" && s.String() != tc.want:
				t.Fatalf("%s, want %s", s, tc.want)
			}
		})
	}
}

func TestParseGTID(t *testing.T) {
	for text, want := range map[string]binlog.GTID{
		uuidA + ":5":       {Source: uuidA, Number: 5},
		uuidA + ":tag_a:5": {Source: uuidA + ":tag_a", Number: 5},
		uuidA + ":5-6":     {},
		uuidA + ":5:7":     {},
		"":                 {},
		uuidA + ":":        {},
	} {
		got, err := binlog.ParseGTID(text)
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want.Number > 0) {
			t.Errorf("%s: %v, error %v", text, diff, err)
		}
		if err == nil && got.String() != text {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

// A naiveSet stores each GTID separately, without intervals. The tests compare Set with this simple implementation.
type naiveSet map[binlog.GTID]bool

// A pair is a Set and a naiveSet that must always contain the same GTIDs.
type pair struct {
	binlog.Set

	naive naiveSet
}

var sources = []string{uuidA, uuidB, uuidA + ":tag_a", uuidA + ":tag_b"}

const maxNumber = 14

func randomPair(r *rand.Rand) pair {
	p := pair{binlog.Set{}, naiveSet{}}
	for range r.IntN(20) {
		g := binlog.GTID{Source: sources[r.IntN(len(sources))], Number: 1 + r.Int64N(maxNumber)}
		p.Add(g)
		p.naive[g] = true
	}
	return p
}

// check returns how the Set differs from the naiveSet, or why its intervals are not minimal. It returns "" if all is
// well.
func (p pair) check() string {
	for source, all := range p.Set {
		for k, i := range all {
			if i.Last < i.First || k > 0 && all[k-1].Last+1 >= i.First {
				return "the intervals of " + source + " are not sorted, or touch"
			}
		}
	}
	for _, source := range sources {
		for n := int64(1); n <= maxNumber; n++ {
			if g := (binlog.GTID{Source: source, Number: n}); p.Has(g) != p.naive[g] {
				return g.String() + " differs"
			}
		}
	}
	if p.Count() != int64(len(p.naive)) {
		return "the count differs: " + strconv.FormatInt(p.Count(), 10)
	}
	return ""
}

func (n naiveSet) without(o naiveSet) naiveSet {
	out := naiveSet{}
	for g := range n {
		if !o[g] {
			out[g] = true
		}
	}
	return out
}

// TestSetAgainstNaiveSet compares all operations of random sets with sets that have no intervals.
func TestSetAgainstNaiveSet(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // A test needs no secure random numbers.
		a, b := randomPair(r), randomPair(r)
		if r.IntN(4) == 0 {
			b = pair{a.Clone(), a.naive.without(nil)}
		}
		rest := pair{a.Without(b.Set), a.naive.without(b.naive)}
		both := pair{a.Clone(), a.naive.without(nil)}
		both.AddAll(b.Set)
		for g := range b.naive {
			both.naive[g] = true
		}
		for name, p := range map[string]pair{"a": a, "b": b, "without": rest, "union": both} {
			if reason := p.check(); reason != "" {
				t.Fatalf("seed %d: %s of %s and %s: %s", seed, name, a, b, reason)
			}
			if reparsed := parse(t, p.String()); !reparsed.Equal(p.Set) || reparsed.String() != p.String() {
				t.Fatalf("seed %d: %s is parsed as %s", seed, p, reparsed)
			}
		}
		contains := len(b.naive.without(a.naive)) == 0
		isEqual := contains && len(a.naive.without(b.naive)) == 0
		if a.Contains(b.Set) != contains || a.Equal(b.Set) != isEqual || a.IsEmpty() != (len(a.naive) == 0) {
			t.Fatalf("seed %d: %s and %s: Contains, Equal or IsEmpty is wrong", seed, a, b)
		}
	}
}

// TestCloneIsIndependent checks that a clone does not share its intervals.
func TestCloneIsIndependent(t *testing.T) {
	s := parse(t, uuidA+":1-5")
	c := s.Clone()
	c.Add(binlog.GTID{Source: uuidA, Number: 6})
	if s.String() != uuidA+":1-5" {
		t.Errorf("the original is %s", s)
	}
}

func FuzzParseSet(f *testing.F) {
	f.Add(uuidA + ":1-5:7:tag_a:1-2,\n" + uuidB + ":3")
	f.Add(uuidA + ":9223372036854775806:1-9223372036854775806")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := binlog.ParseSet(text)
		if err != nil {
			return
		}
		reparsed, err := binlog.ParseSet(s.String())
		if err != nil && len(s.String()) <= binlog.MaxSet || err == nil && !reparsed.Equal(s) {
			t.Fatalf("%q becomes %s, %v", text, s, err)
		}
		if s.Count() < 0 && len(s) == 1 {
			t.Fatalf("%q has %d transactions", text, s.Count())
		}
	})
}
