package autogrow

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

const gi, mi = int64(1 << 30), int64(1 << 20)

// noon is the current time in all tests of decisions.
func noon() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// filling returns a volume of 10Gi with the given percentage of free space. It can grow to 20Gi.
func filling(free int64, changes ...func(*Input)) Input {
	in := Input{
		Now: noon(), Rule: v1.GrowthRule{Below: 15, ByPercent: 20, To: 20 * gi}, Size: 10 * gi, Serving: true,
		Volume: Volume{Name: "db-pvc", Class: "fast", Bound: true, Expandable: true, Request: 10 * gi, Capacity: 10 * gi},
		Usage:  volumestats.Usage{Capacity: 97 * gi / 10, Available: 97 * gi / 1000 * free},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// waiting returns a change to an Input: the volume has already waited for d. what is one of the values of Memory.Waits.
func waiting(what string, d time.Duration) func(*Input) {
	return func(in *Input) { in.Memory = Memory{Waits: what, Since: in.Now.Add(-d)} }
}

func TestDecide(t *testing.T) {
	unmeasured := func(in *Input) { in.Usage, in.Unmeasured = volumestats.Usage{}, "no scrape" }
	suspended := func(in *Input) { in.Serving = false }
	sized := func(request, capacity int64) func(*Input) {
		return func(in *Input) { in.Volume.Request, in.Volume.Capacity = request*gi, capacity*gi }
	}
	grown := func(size int64) func(*Input) {
		return func(in *Input) { in.Grown, in.FileSystem = size*gi, 97*gi/10 }
	}
	limit := func(size int64) func(*Input) { return func(in *Input) { in.Max = size * gi } }
	system := func(capacity int64) func(*Input) {
		return func(in *Input) { in.Usage = volumestats.Usage{Capacity: capacity, Available: capacity / 100} }
	}
	refused := func(d time.Duration) func(*Input) {
		return func(in *Input) { in.Memory = Memory{Refusals: 1, Refusal: "exceeded quota", RetryAt: in.Now.Add(d)} }
	}
	for name, tc := range map[string]struct {
		in      Input
		record  int64
		adopts  bool
		reason  string
		message []string
		waits   string
	}{
		"Enough":    {in: filling(50), reason: v1.ReasonMonitored},
		"JustAbove": {in: filling(16), reason: v1.ReasonMonitored},
		"JustBelow": {in: filling(14), record: 12 * gi, reason: v1.ReasonGrowing, message: []string{"10Gi", "12Gi", "15 %"}},
		"Full":      {in: filling(0), record: 12 * gi, reason: v1.ReasonGrowing},
		"ByQuantity": {in: filling(0, func(in *Input) { in.Rule.ByPercent, in.Rule.By = 0, 5*gi }), record: 15 * gi,
			reason: v1.ReasonGrowing},
		"ToTheLimit":              {in: filling(0, func(in *Input) { in.Rule.To = 11 * gi }), record: 11 * gi, reason: v1.ReasonGrowing},
		"ToTheLimitOfThePlatform": {in: filling(0, limit(11)), record: 11 * gi, reason: v1.ReasonGrowing},
		"LooseLimitOfThePlatform": {in: filling(0, limit(99)), record: 12 * gi, reason: v1.ReasonGrowing},
		"FromMi": {in: filling(0, func(in *Input) {
			in.Size, in.Volume.Request, in.Volume.Capacity = 300*mi, 300*mi, 300*mi
			in.Usage = volumestats.Usage{Capacity: 280 * mi, Available: mi}
		}), record: gi, reason: v1.ReasonGrowing, message: []string{"300Mi", "1Gi"}},
		"LargerThanRequested": {in: filling(0, sized(10, 16), system(155*gi/10)), record: 20 * gi, reason: v1.ReasonGrowing},

		"LimitReached": {in: filling(0, func(in *Input) { in.Rule.To = 10 * gi }), reason: v1.ReasonLimitReached,
			message: []string{"maximum size (10Gi)", "spec.storageAutogrow.to"}},
		"LimitOfThePlatform": {in: filling(0, limit(10)), reason: v1.ReasonLimitReached,
			message: []string{"maxStorageSize of Platform"}},
		"LimitNotNeeded": {in: filling(50, limit(10)), reason: v1.ReasonMonitored},
		"LimitLowered":   {in: filling(0, limit(5)), reason: v1.ReasonLimitReached},

		"NoClass": {in: filling(0, func(in *Input) { in.Volume.Class = "" }), reason: v1.ReasonNotExpandable,
			message: []string{"db-pvc has no storage class"}},
		"NotExpandable": {in: filling(90, func(in *Input) { in.Volume.Expandable = false }), reason: v1.ReasonNotExpandable,
			message: []string{`"fast"`, "allowVolumeExpansion"}},
		"NotBound":  {in: filling(0, func(in *Input) { in.Volume.Bound = false })},
		"Restored":  {in: filling(0, sized(15, 15)), record: 15 * gi, adopts: true},
		"Recorded":  {in: filling(50, sized(15, 15), grown(15), system(14*gi)), record: 18 * gi, reason: v1.ReasonGrowing},
		"NotShrunk": {in: filling(50, sized(12, 12), grown(12), func(in *Input) { in.Usage.Capacity = 11 * gi }), reason: v1.ReasonMonitored},

		"Requested":        {in: filling(0, grown(12)), waits: waitsForVolume},
		"Resizing":         {in: filling(0, grown(12), sized(12, 10)), waits: waitsForVolume},
		"StillResizing":    {in: filling(0, grown(12), sized(12, 10), waiting(waitsForVolume, Grace-1)), waits: waitsForVolume},
		"WaitedForAnother": {in: filling(0, grown(12), sized(12, 10), waiting(waitsForMeasure, Grace)), waits: waitsForVolume},
		"ResizeStalled": {in: filling(0, grown(12), sized(12, 10), waiting(waitsForVolume, Grace)), waits: waitsForVolume,
			reason: v1.ReasonGrowthStalled, message: []string{"grow to 12Gi", "db-pvc has only 10Gi", "events of"}},
		"ResizeFailed": {in: filling(0, grown(12), sized(12, 10), waiting(waitsForVolume, Grace),
			func(in *Input) { in.Volume.Trouble = "disk quota" }), waits: waitsForVolume, reason: v1.ReasonGrowthStalled,
			message: []string{"only 10Gi: disk quota"}},
		"OldMeasurement": {in: filling(0, grown(12), sized(12, 12)), waits: waitsForSystem},
		"SystemStalled": {in: filling(0, grown(12), sized(12, 12), waiting(waitsForSystem, Grace)), waits: waitsForSystem,
			reason: v1.ReasonGrowthStalled, message: []string{"its file system has not grown"}},
		"SystemGrown": {in: filling(0, grown(12), sized(12, 12), system(116*gi/10)), record: 15 * gi, reason: v1.ReasonGrowing},

		"Unmeasured": {in: filling(0, unmeasured), waits: waitsForMeasure},
		"LongUnmeasured": {in: filling(0, unmeasured, waiting(waitsForMeasure, Grace)), waits: waitsForMeasure,
			reason: v1.ReasonNotMeasured, message: []string{"no scrape"}},
		"Suspended":       {in: filling(0, unmeasured, suspended, waiting(waitsForMeasure, Grace))},
		"FullAndStopped":  {in: filling(0, suspended), record: 12 * gi, reason: v1.ReasonGrowing},
		"SizeNotEnforced": {in: filling(0, system(500*gi)), reason: v1.ReasonSizeNotEnforced, message: []string{"10Gi", `"fast"`}},
		"WrongUnit":       {in: filling(0, system(10)), waits: waitsForSystem},
		"LongWrongUnit": {in: filling(0, system(10), waiting(waitsForSystem, Grace)), waits: waitsForSystem,
			reason: v1.ReasonNotMeasured, message: []string{"less than half of its size"}},

		"RefusedBefore":  {in: filling(0, refused(time.Second)), reason: v1.ReasonGrowthRefused, message: []string{"exceeded quota"}},
		"RefusedLongAgo": {in: filling(0, refused(0)), record: 12 * gi, reason: v1.ReasonGrowing},
		"NoLongerFull":   {in: filling(50, refused(time.Second)), reason: v1.ReasonMonitored},
	} {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.in)
			if got.Record != tc.record || got.Grows != (tc.record > 0 && !tc.adopts) || got.Reason != tc.reason ||
				got.Memory.Waits != tc.waits {
				t.Fatalf("got %+v", got)
			}
			if got.Grows && got.FileSystem != tc.in.Usage.Capacity {
				t.Errorf("want the file system of %d bytes, got %d", tc.in.Usage.Capacity, got.FileSystem)
			}
			for _, text := range tc.message {
				if !strings.Contains(got.Message, text) {
					t.Errorf("want %q in %q", text, got.Message)
				}
			}
		})
	}
}

// TestOneStepAtATime fills a volume without end, while the volume and its measurement follow with a delay. Each step
// waits for the previous one.
func TestOneStepAtATime(t *testing.T) {
	in := filling(0)
	var sizes []int64
	for minute := range 200 {
		in.Now = noon().Add(time.Duration(minute) * time.Minute)
		switch { // Each of these reactions of Kubernetes takes a minute.
		case in.Volume.Request < in.Grown:
			in.Volume.Request = in.Grown
		case in.Volume.Capacity < in.Volume.Request:
			in.Volume.Capacity = in.Volume.Request
		case in.Usage.Capacity < in.Volume.Capacity/10*9:
			in.Usage.Capacity, in.Usage.Available = in.Volume.Capacity/100*97, 0
		}
		got := Decide(in)
		in.Memory = got.Memory
		if got.Grows {
			sizes = append(sizes, got.Record/gi)
			in.Grown, in.FileSystem = got.Record, got.FileSystem
		}
	}
	if diff := cmp.Diff([]int64{12, 15, 18, 20}, sizes); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// TestRefuse checks that a growth that the API server refuses is retried after increasing delays, and that the message
// is reported in the meantime.
func TestRefuse(t *testing.T) {
	in := filling(0)
	delays := make([]time.Duration, 0, 8)
	for range 8 {
		if got := Decide(in); !got.Grows {
			t.Fatalf("it does not retry: %+v", got)
		}
		refused := in.Refuse("exceeded quota")
		if refused.Reason != v1.ReasonGrowthRefused || !strings.Contains(refused.Message, "exceeded quota") || refused.Record != 0 {
			t.Fatalf("got %+v", refused)
		}
		in.Memory = refused.Memory
		delays = append(delays, in.Memory.RetryAt.Sub(in.Now))
		in.Now = in.Memory.RetryAt.Add(-1)
		waits := Decide(in)
		if waits.Grows || waits.Reason != v1.ReasonGrowthRefused || waits.Message != refused.Message {
			t.Fatalf("it does not wait: %+v", waits)
		}
		in.Memory, in.Now = waits.Memory, in.Memory.RetryAt
	}
	want := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, longestRetry,
		longestRetry, longestRetry}
	if diff := cmp.Diff(want, delays); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
	if got := Decide(in); got.Memory.Refusals != 0 {
		t.Errorf("an accepted growth must reset the delay: %+v", got)
	}
}
