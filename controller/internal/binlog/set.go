package binlog

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/mysql"
)

// MaxSet is the maximum length of the text of a Set in bytes. A server that runs for years has a set of a few hundred
// bytes. Only a user who assigns GTIDs by hand creates a set with many gaps.
const MaxSet = 16 << 10

// A Set is a set of GTIDs. The key is a source, which is a UUID with an optional tag (uuid:tag). The intervals are
// sorted, and neither overlap nor touch. The zero value is the empty set.
type Set map[string][]Interval

// An Interval contains the transaction numbers from First to Last.
type Interval struct{ First, Last int64 }

// A GTID identifies one transaction.
type GTID struct {
	// Source is a UUID with an optional tag (uuid:tag).
	Source string
	Number int64
}

// String returns the GTID in the format of MySQL.
func (g GTID) String() string { return g.Source + ":" + strconv.FormatInt(g.Number, 10) }

// Set returns the set with only this GTID.
func (g GTID) Set() Set { return Set{g.Source: {{g.Number, g.Number}}} }

var (
	uuidPattern = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	tagPattern  = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,31}$`)
)

// ParseSet parses a set in the format of gtid_executed: uuid:1-5:7,uuid:1-3:tag:1-2.
func ParseSet(text string) (Set, error) {
	if len(text) > MaxSet {
		return nil, fmt.Errorf("the GTID set is %d bytes long, but the maximum is %d bytes", len(text), MaxSet)
	}
	out := Set{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		if part == "" {
			continue
		}
		fields := strings.Split(part, ":")
		if !uuidPattern.MatchString(fields[0]) || len(fields) < 2 || tagPattern.MatchString(fields[len(fields)-1]) {
			return nil, fmt.Errorf("%.100q is not a GTID set", part)
		}
		source := fields[0]
		for _, field := range fields[1:] {
			if tagPattern.MatchString(field) {
				source = fields[0] + ":" + field
				continue
			}
			i, err := parseInterval(field)
			if err != nil {
				return nil, err
			}
			out.addInterval(source, i)
		}
	}
	return out, nil
}

// ParseGTID parses one GTID.
func ParseGTID(text string) (GTID, error) {
	s, err := ParseSet(text)
	if err != nil {
		return GTID{}, err
	}
	for source, all := range s {
		if len(s) == 1 && len(all) == 1 && all[0].First == all[0].Last {
			return GTID{source, all[0].First}, nil
		}
	}
	return GTID{}, fmt.Errorf("%.100q is not one GTID, such as 3e11fa47-71ca-11e1-9e33-c80aa9429562:23", text)
}

func parseInterval(field string) (Interval, error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(field), "-")
	if !isRange {
		last = first
	}
	a, err1 := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	b, err2 := strconv.ParseInt(strings.TrimSpace(last), 10, 64)
	if err1 != nil || err2 != nil || a < 1 || b < a || b == math.MaxInt64 {
		return Interval{}, fmt.Errorf("%.100q is not an interval of transaction numbers", field)
	}
	return Interval{a, b}, nil
}

// String returns the set in the format of gtid_executed, without line feeds.
func (s Set) String() string {
	var out strings.Builder
	for _, source := range slices.Sorted(maps.Keys(s)) {
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		out.WriteString(source)
		for _, i := range s[source] {
			fmt.Fprintf(&out, ":%d", i.First)
			if i.Last > i.First {
				fmt.Fprintf(&out, "-%d", i.Last)
			}
		}
	}
	return out.String()
}

// Clone returns a copy of the set that does not share its intervals.
func (s Set) Clone() Set {
	out := make(Set, len(s))
	for source, all := range s {
		out[source] = slices.Clone(all)
	}
	return out
}

// Add adds one GTID to the set.
func (s Set) Add(g GTID) { s.addInterval(g.Source, Interval{g.Number, g.Number}) }

// AddAll adds all GTIDs of another set to this set.
func (s Set) AddAll(o Set) {
	for source, all := range o {
		for _, i := range all {
			s.addInterval(source, i)
		}
	}
}

// Without returns the GTIDs of the set that are not in the other set.
func (s Set) Without(o Set) Set {
	out := Set{}
	for source, all := range s {
		rest := make([]Interval, 0, len(all))
		for _, i := range all {
			rest = append(rest, i.withoutHoles(o[source])...)
		}
		if len(rest) > 0 {
			out[source] = rest
		}
	}
	return out
}

func (i Interval) withoutHoles(holes []Interval) (out []Interval) {
	for _, h := range holes {
		if h.Last < i.First || h.First > i.Last {
			continue
		}
		if h.First > i.First {
			out = append(out, Interval{i.First, h.First - 1})
		}
		if i.First = h.Last + 1; i.First > i.Last {
			return out
		}
	}
	return append(out, i)
}

// Contains reports whether all GTIDs of the other set are in the set.
func (s Set) Contains(o Set) bool { return o.Without(s).IsEmpty() }

// Has reports whether a GTID is in the set.
func (s Set) Has(g GTID) bool {
	return slices.ContainsFunc(s[g.Source], func(i Interval) bool { return i.First <= g.Number && g.Number <= i.Last })
}

// Equal reports whether both sets have the same GTIDs.
func (s Set) Equal(o Set) bool { return s.Contains(o) && o.Contains(s) }

// IsEmpty reports whether the set has no GTIDs.
func (s Set) IsEmpty() bool {
	for _, all := range s {
		if len(all) > 0 {
			return false
		}
	}
	return true
}

// Count returns the number of GTIDs in the set.
func (s Set) Count() (n int64) {
	for _, all := range s {
		for _, i := range all {
			n += i.Last - i.First + 1
		}
	}
	return n
}

func (s Set) addInterval(source string, added Interval) {
	all := s[source]
	if n := len(all); n > 0 && all[n-1].Last+1 == added.First { // The common case: the next transaction.
		all[n-1].Last = added.Last
		return
	}
	out := make([]Interval, 0, len(all)+1)
	for k, i := range all {
		if i.Last+1 < added.First {
			out = append(out, i)
			continue
		}
		if added.Last+1 < i.First {
			out = append(out, added)
			s[source] = append(out, all[k:]...)
			return
		}
		added = Interval{min(i.First, added.First), max(i.Last, added.Last)}
	}
	s[source] = append(out, added)
}

// encodeSet returns the set in the format of Previous_gtids events and of COM_BINLOG_DUMP_GTID.
func (s Set) encodeSet() ([]byte, error) {
	encoded, err := mysql.ParseMysqlGTIDSet(s.String())
	if err != nil {
		return nil, fmt.Errorf("cannot encode the GTID set %.200q: %w", s, err)
	}
	return encoded.Encode(), nil
}
