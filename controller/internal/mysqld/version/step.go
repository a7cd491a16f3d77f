package version

import (
	"cmp"
	"fmt"
	"slices"
)

// A Step describes whether a server upgrades an existing data directory when it starts.
type Step int

// Possible steps from the version that last used a data directory to the version that starts on it.
const (
	// None means that the version is the same, so the files are not upgraded. The server can recover from an unclean
	// shutdown.
	None Step = iota
	// Upgrade means that the server upgrades the directory. This requires a clean shutdown.
	Upgrade
)

type series struct{ major, minor int }

// mysqlSeries contains the release series in order. MySQL upgrades from a station (a bugfix or LTS series) to any
// series up to the next station, and cannot skip a station
// (https://dev.mysql.com/doc/refman/9.1/en/upgrade-paths.html). After 9.7, a version is a date, and its numbers do
// not show the upgrade paths. For example, an upgrade to 26.7 is possible only from 9.7
// (https://dev.mysql.com/doc/refman/26.10/en/upgrade-paths.html). A series that is not in this table is untested and
// therefore refused. Of the series in the table, the tests run only 9.7.
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

// Between returns what a new server does with the data directory of an older server. It returns an error if the new
// server cannot use the directory. A downgrade is never allowed. MySQL supports it only within an LTS series, and not
// after every new feature.
func Between(source, target Version) (Step, error) {
	if source.Flavour != target.Flavour {
		return None, fmt.Errorf("the data is from %s, but the image is %s, which cannot read it", source, target)
	}
	switch order := compare(source, target); {
	case order == 0:
		return None, nil
	case order > 0:
		return None, fmt.Errorf("the data is from %s, but the image is the older %s, which cannot read it", source, target)
	case source.series() == target.series():
		return Upgrade, nil
	case source.Flavour == MySQL && reaches(source.series(), target.series()):
		return Upgrade, nil
	}
	return None, fmt.Errorf("the data is from %s, and an upgrade to %s in one step is not supported", source, target)
}

// reaches reports whether two series are known and no station is between them. target is the later one.
func reaches(source, target series) bool {
	from, end := index(source), index(target)
	if from < 0 || end < 0 {
		return false
	}
	for _, between := range mysqlSeries[from+1 : end] {
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
