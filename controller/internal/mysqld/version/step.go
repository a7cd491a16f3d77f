package version

import (
	"cmp"
	"fmt"
	"slices"
)

// A Step is what a server has to do to a data directory that it takes over.
type Step int

// Steps.
const (
	// None: the same version. It recovers also what was not stopped cleanly.
	None Step = iota
	// Upgrade: the server upgrades the directory, but only one that was stopped
	// cleanly.
	Upgrade
)

// A series is a major and a minor version.
type series struct{ major, minor int }

// mysqlSeries in their order. MySQL upgrades from a station (a bug-fix or LTS
// series) to any series up to the next station, and passes none by
// (https://dev.mysql.com/doc/refman/9.1/en/upgrade-paths.html). After 9.7 a version is a
// date, and what upgrades what is no order of numbers any more: what begins with 26.7 can be
// entered from 9.7 only (https://dev.mysql.com/doc/refman/26.10/en/upgrade-paths.html). What
// is not in this table is not known to work, and so it is refused. Only 9.7 was ever run here.
var mysqlSeries = []struct {
	series

	station bool
}{
	{series{5, 7}, true},
	{series{8, 0}, true},
	{series{8, 1}, false},
	{series{8, 2}, false},
	{series{8, 3}, false},
	{series{8, 4}, true},
	{series{9, 0}, false},
	{series{9, 1}, false},
	{series{9, 2}, false},
	{series{9, 3}, false},
	{series{9, 4}, false},
	{series{9, 5}, false},
	{series{9, 6}, false},
	{series{9, 7}, true},
	{series{26, 7}, false},
	{series{26, 10}, false},
}

// Between the server that wrote a data directory and the one that is to take it
// over. The error says why that one cannot. A step down is never taken: MySQL
// promises it within an LTS series only, and not after every new feature.
func Between(source, target Version) (Step, error) {
	if source.Flavour != target.Flavour {
		return None, fmt.Errorf("the data is %s's, and the image is %s: they do not read each other's files", source, target)
	}
	switch order := compare(source, target); {
	case order == 0:
		return None, nil
	case order > 0:
		return None, fmt.Errorf("the data is of %s, and the image is the older %s, which cannot read it", source, target)
	case source.series() == target.series():
		return Upgrade, nil
	case source.Flavour == MySQL && reaches(source.series(), target.series()):
		return Upgrade, nil
	}
	return None, fmt.Errorf("the data is of %s, and %s is not known to upgrade that in one step", source, target)
}

// reaches is true if no station lies between two known series, of which the target
// is the later one.
func reaches(source, target series) bool {
	from, to := index(source), index(target)
	if from < 0 || to < 0 {
		return false
	}
	for _, between := range mysqlSeries[from+1 : to] {
		if between.station {
			return false
		}
	}
	return true
}

func index(s series) int {
	for i, known := range mysqlSeries {
		if known.series == s {
			return i
		}
	}
	return -1
}

func (v Version) series() series { return series{v.Major, v.Minor} }

func compare(a, b Version) int {
	return slices.CompareFunc([]int{a.Major, a.Minor, a.Patch}, []int{b.Major, b.Minor, b.Patch}, cmp.Compare[int])
}
