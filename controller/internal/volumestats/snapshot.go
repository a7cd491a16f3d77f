package volumestats

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the kubelet's metrics.
const (
	nameAvailable = "kubelet_volume_stats_available_bytes"
	nameCapacity  = "kubelet_volume_stats_capacity_bytes"
)

// live is the maximum age of the newest sample of a series, compared with the newest sample of the same volume. An
// older series belongs to a node that the pod has left.
const live = 2 * time.Minute

// A Volume identifies a PersistentVolumeClaim.
type Volume struct{ Namespace, PVC string }

// A Usage is the size and the free space of the file system on a volume, as measured by one scrape.
type Usage struct {
	// Available and Capacity are numbers of bytes. Available is the space that a user without privileges can use.
	Available, Capacity int64
}

// A Snapshot contains the usage of all data volumes, as returned by one query of Prometheus.
type Snapshot struct {
	usage map[Volume]Usage
	// wrong contains the volumes whose usage cannot be determined, with the reason.
	wrong map[Volume]string
}

// Lookup returns the usage of a volume. If it is unknown, it returns the reason.
func (s *Snapshot) Lookup(v Volume) (Usage, string) {
	if reason, ok := s.wrong[v]; ok {
		return Usage{}, reason
	}
	u, ok := s.usage[v]
	if !ok {
		return Usage{}, fmt.Sprintf("Prometheus has no %s of PersistentVolumeClaim %s from the last %s. The kubelet reports "+
			"volumes of running pods only, and not every driver supports it", nameAvailable, v.PVC, window)
	}
	return u, ""
}

// Volumes returns the number of volumes in the snapshot.
func (s *Snapshot) Volumes() int { return len(s.usage) + len(s.wrong) }

// An answer is a response of the API of Prometheus.
type answer struct {
	Status    string `json:"status"`
	ErrorType string `json:"errorType"`
	Error     string `json:"error"`
	Data      struct {
		ResultType string   `json:"resultType"`
		Result     []series `json:"result"`
	} `json:"data"`
}

// A series contains the labels and the samples of one metric.
type series struct {
	Metric map[string]string `json:"metric"`
	Values []sample          `json:"values"`
}

// A sample is the value of a metric at a time, in seconds.
type sample struct {
	time  float64
	value float64
}

// UnmarshalJSON reads a sample, which is a pair of a number and a string.
func (s *sample) UnmarshalJSON(b []byte) error {
	var pair []json.RawMessage
	if err := json.Unmarshal(b, &pair); err != nil || len(pair) != 2 {
		return errors.New("a sample is not a pair of a time and a value")
	}
	var text string
	if json.Unmarshal(pair[0], &s.time) != nil || json.Unmarshal(pair[1], &text) != nil {
		return errors.New("a sample is not a pair of a number and a string")
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(value, 0) {
		return fmt.Errorf("%.40q is not a number", text)
	}
	s.value = value
	return nil
}

// parse converts the response of Prometheus to a Snapshot.
func parse(body []byte) (*Snapshot, error) {
	a := answer{}
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("cannot read the answer of Prometheus: %w", err)
	}
	switch {
	case a.Status != "success":
		return nil, fmt.Errorf("the query of Prometheus failed: %s: %s", clip([]byte(a.ErrorType)), clip([]byte(a.Error)))
	case a.Data.ResultType != "matrix":
		return nil, fmt.Errorf("prometheus returned a %q instead of a matrix", clip([]byte(a.Data.ResultType)))
	}
	origins := map[Volume]map[string]*origin{}
	for _, s := range a.Data.Result {
		v := Volume{Namespace: s.Metric["namespace"], PVC: s.Metric["persistentvolumeclaim"]}
		name := s.Metric["__name__"]
		if v.Namespace == "" || v.PVC == "" || name != nameAvailable && name != nameCapacity {
			continue
		}
		if origins[v] == nil {
			origins[v] = map[string]*origin{}
		}
		key := labelsKey(s.Metric)
		if origins[v][key] == nil {
			origins[v][key] = &origin{available: map[float64]float64{}, capacity: map[float64]float64{}}
		}
		origins[v][key].add(name, s.Values)
	}
	out := &Snapshot{usage: map[Volume]Usage{}, wrong: map[Volume]string{}}
	for v, found := range origins {
		if u, reason := combine(found); reason != "" {
			out.wrong[v] = reason
		} else {
			out.usage[v] = u
		}
	}
	return out, nil
}

// labelsKey returns the labels of a series, without the name of the metric, as a string. It identifies the origin.
func labelsKey(labels map[string]string) string {
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if name != "__name__" {
			fmt.Fprintf(&out, "%q=%q,", name, labels[name])
		}
	}
	return out.String()
}

// An origin contains the samples of one volume that one Prometheus has scraped from one kubelet.
type origin struct{ available, capacity map[float64]float64 }

func (o *origin) add(name string, values []sample) {
	target := o.available
	if name == nameCapacity {
		target = o.capacity
	}
	for _, s := range values {
		target[s.time] = s.value
	}
}

// newest returns the newest sample that both metrics have. Values of two scrapes are not combined.
func (o *origin) newest() (latest float64, found bool) {
	for t := range o.available {
		if _, both := o.capacity[t]; both && (!found || t > latest) {
			latest, found = t, true
		}
	}
	return latest, found
}

// combine returns the usage of a volume from all its origins, or why it is unknown.
func combine(origins map[string]*origin) (Usage, string) {
	newest := math.Inf(-1)
	for _, o := range origins {
		if scraped, ok := o.newest(); ok {
			newest = max(newest, scraped)
		}
	}
	var out *Usage
	for _, key := range slices.Sorted(maps.Keys(origins)) {
		o := origins[key]
		scraped, ok := o.newest()
		if !ok || newest-scraped > live.Seconds() {
			continue
		}
		u, reason := usageOf(o.available[scraped], o.capacity[scraped])
		switch {
		case reason != "":
			return Usage{}, reason
		case out != nil && *out != u:
			return Usage{}, "Prometheus has several different values, such as those of several clusters. Select one of them " +
				"with --volume-stats-selector"
		}
		out = &u
	}
	if out == nil {
		return Usage{}, "Prometheus has no scrape with both " + nameAvailable + " and " + nameCapacity
	}
	return *out, ""
}

// maxBytes is the maximum size of a file system: 8 EiB.
const maxBytes = 1 << 62

// usageOf returns the values of a scrape as a Usage, or why they cannot be correct.
func usageOf(available, capacity float64) (Usage, string) {
	if !(capacity > 0 && capacity <= maxBytes && available >= 0 && available <= capacity) {
		return Usage{}, "Prometheus has impossible values for this volume, such as negative ones"
	}
	return Usage{Available: int64(available), Capacity: int64(capacity)}, ""
}
