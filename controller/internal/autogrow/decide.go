// Package autogrow decides when a data volume grows by itself, and to which size.
package autogrow

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	v1 "github.com/crossplane-mysql/crossplane-mysql/apis/v1"
	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/volumestats"
)

const (
	// Grace is the time after which the controller reports a problem if the volume has not grown, or if there is no new
	// measurement.
	Grace = 10 * time.Minute
	// firstRetry and longestRetry limit the time until a larger PVC is requested again after the API server has refused
	// it.
	firstRetry   = time.Minute
	longestRetry = 30 * time.Minute
)

// An Input contains everything that a decision depends on. Sizes are in bytes, and 0 if they are unknown.
type Input struct {
	// Now is the current time.
	Now time.Time
	// Rule is the rule in the spec. Max is the maximum of the platform, or 0 if there is none.
	Rule v1.GrowthRule
	Max  int64
	// Size is the size in the spec. Grown is the size to which autogrow has increased the volume, from the status, or
	// 0.
	Size, Grown int64
	// FileSystem is the size of the file system before the last growth.
	FileSystem int64
	Volume     Volume
	// Usage is the free space of the volume. Unmeasured is the reason if it is unknown.
	Usage      volumestats.Usage
	Unmeasured string
	// Serving is false if the server is not expected to run, such as while it is suspended. Then no pod mounts the volume,
	// and the kubelet does not measure it.
	Serving bool
	// Memory is the Memory that the previous Decision about this volume returned.
	Memory Memory
}

// A Volume is the state of a PersistentVolumeClaim and its StorageClass.
type Volume struct {
	// Name is the name of the PersistentVolumeClaim. Class is its StorageClass, or "".
	Name, Class string
	// Bound is true if there is a volume. Expandable is true if the class allows volume expansion.
	Bound, Expandable bool
	// Request is the requested size, and Capacity is the actual size.
	Request, Capacity int64
	// Trouble is the reason why the last expansion failed, or "".
	Trouble string
}

// A Memory is the state of a data volume that the controller keeps in memory between two decisions. A restart clears
// it.
type Memory struct {
	// Waits is what the volume waits for, and Since is the time at which it started to wait.
	Waits string
	Since time.Time
	// Refusals is the number of consecutive requests for a larger PVC that the API server refused. Refusal is its last
	// message, and RetryAt the time of the next request.
	Refusals int
	Refusal  string
	RetryAt  time.Time
}

// A Decision says whether a data volume must grow, and what the status reports about it.
type Decision struct {
	// Record is the size to record in the status, or 0 if it does not change. Grows is true if the volume must grow to
	// this size. It is false if the volume already has this size.
	Record int64
	Grows  bool
	// FileSystem is the size of the file system before the growth, to store in the status with the new size.
	FileSystem int64
	// Reason and Message are the new reason and message of the condition StorageAutogrow. An empty reason keeps the
	// previous ones.
	Reason, Message string
	// Memory is the state that the controller must pass as Input.Memory to the next decision about this volume.
	Memory Memory
}

// Values of Memory.Waits. A volume waits for its expansion, for the growth of its file system, or for a measurement.
const (
	waitsForVolume  = "volume"
	waitsForSystem  = "file system"
	waitsForMeasure = "measurement"
)

// Decide decides whether a data volume must grow, and to which size.
func Decide(in Input) Decision {
	wanted := max(in.Size, in.Grown)
	v := in.Volume
	switch {
	case !v.Bound:
		return in.report("", "")
	case v.Request > wanted:
		// The volume was created for a larger backup, a user has expanded it, or the record was lost.
		return Decision{Record: v.Request, Memory: in.Memory}
	case v.Class == "":
		return in.report(v1.ReasonNotExpandable, "The data volume cannot grow, because PersistentVolumeClaim "+v.Name+
			" has no storage class")
	case !v.Expandable:
		return in.report(v1.ReasonNotExpandable, fmt.Sprintf("The data volume cannot grow, because storage class %q does not "+
			"allow volume expansion (allowVolumeExpansion)", v.Class))
	case v.Request < wanted || v.Capacity < v.Request:
		return in.waitForVolume(wanted)
	case in.Unmeasured == volumestats.NotConfigured:
		return in.report(v1.ReasonNotMeasured, in.Unmeasured)
	case in.Unmeasured != "" && !in.Serving:
		return in.report("", "")
	case in.Unmeasured != "":
		return in.await(waitsForMeasure, v1.ReasonNotMeasured, "The data volume does not grow, because its free space is "+
			"unknown: "+in.Unmeasured)
	}
	return in.decideMeasured(max(wanted, v.Capacity))
}

// IsLow reports whether less than a percentage of a file system is free.
func IsLow(u volumestats.Usage, below int64) bool { return u.Available < u.Capacity/100*below }

// Refuse returns the decision after the API server has refused the growth.
func (in Input) Refuse(message string) Decision {
	in.Memory.Refusals++
	in.Memory.Refusal = message
	in.Memory.RetryAt = in.Now.Add(min(firstRetry<<min(in.Memory.Refusals-1, 8), longestRetry))
	return in.refused()
}

// decideMeasured returns the decision for a volume that has the requested size and whose free space is known.
func (in Input) decideMeasured(current int64) Decision {
	u := in.Usage
	switch {
	case in.FileSystem > 0 && u.Capacity <= in.FileSystem:
		// The measurement is older than the last growth, or the file system has not grown.
		return in.await(waitsForSystem, v1.ReasonGrowthStalled, fmt.Sprintf("The data volume has %s, but its file system has "+
			"not grown%s", sizeText(in.Volume.Capacity), in.trouble()))
	case u.Capacity > current+current/4:
		return in.report(v1.ReasonSizeNotEnforced, fmt.Sprintf("The data volume does not grow, because its file system is larger "+
			"than the volume (%s). Storage class %q does not limit volumes to their size, so a larger size would not free space",
			sizeText(current), in.Volume.Class))
	case u.Capacity < current/2:
		return in.await(waitsForSystem, v1.ReasonNotMeasured, fmt.Sprintf("The data volume does not grow, because Prometheus "+
			"reports less than half of its size (%s). Check the metrics kubelet_volume_stats_capacity_bytes of %s",
			sizeText(current), in.Volume.Name))
	case !IsLow(u, in.Rule.Below):
		return in.report(v1.ReasonMonitored, "")
	}
	return in.grow(current)
}

// grow returns the decision for a volume with too little free space: the next size, or why the volume cannot grow.
func (in Input) grow(current int64) Decision {
	limit, source := in.Rule.To, "spec.storageAutogrow.to"
	if in.Max > 0 && in.Max < limit {
		limit, source = in.Max, fmt.Sprintf("maxStorageSize of %s %s", v1.KindPlatform, v1.PlatformName)
	}
	next := in.Rule.NextSize(current, limit)
	switch {
	case next == 0:
		return in.report(v1.ReasonLimitReached, fmt.Sprintf("Less than %d %% of the data volume is free, but it has its maximum "+
			"size (%s). Increase %s, or delete data", in.Rule.Below, sizeText(current), source))
	case in.Memory.Refusals > 0 && in.Now.Before(in.Memory.RetryAt):
		return in.refused()
	}
	out := in.report(v1.ReasonGrowing, fmt.Sprintf("The data volume grows from %s to %s, because less than %d %% of it was free",
		sizeText(current), sizeText(next), in.Rule.Below))
	out.Record, out.Grows, out.FileSystem = next, true, in.Usage.Capacity
	return out
}

func (in Input) refused() Decision {
	m := in.Memory
	out := in.report(v1.ReasonGrowthRefused, fmt.Sprintf("Less than %d %% of the data volume is free, but the API server refuses a "+
		"larger volume: %s", in.Rule.Below, m.Refusal))
	out.Memory.Refusals, out.Memory.Refusal, out.Memory.RetryAt = m.Refusals, m.Refusal, m.RetryAt
	return out
}

// report returns a decision that does not change the size of the volume. Its memory is empty, because the volume does
// not wait for anything.
func (in Input) report(reason, message string) Decision {
	return Decision{Reason: reason, Message: message}
}

// await returns a decision for a volume that waits. It keeps the previous report for a grace period, and then reports a
// problem.
func (in Input) await(what, reason, message string) Decision {
	out := Decision{Memory: in.Memory}
	if out.Memory.Waits != what {
		out.Memory.Waits, out.Memory.Since = what, in.Now
	}
	if in.Now.Sub(out.Memory.Since) >= Grace {
		out.Reason, out.Message = reason, message
	}
	return out
}

// waitForVolume returns the decision for a volume that waits until its PVC has the requested size.
func (in Input) waitForVolume(wanted int64) Decision {
	return in.await(waitsForVolume, v1.ReasonGrowthStalled, fmt.Sprintf("The data volume was requested to grow to %s, but "+
		"PersistentVolumeClaim %s has only %s%s", sizeText(wanted), in.Volume.Name, sizeText(in.Volume.Capacity), in.trouble()))
}

// trouble returns why the expansion of the volume failed, or where to look, as the end of a sentence.
func (in Input) trouble() string {
	if in.Volume.Trouble == "" {
		return ". See the events of PersistentVolumeClaim " + in.Volume.Name
	}
	return ": " + in.Volume.Trouble
}

// sizeText formats a size in bytes as a Kubernetes quantity, for messages to users.
func sizeText(bytes int64) string {
	const mebi = 1 << 20
	if bytes%mebi == 0 {
		return resource.NewQuantity(bytes, resource.BinarySI).String()
	}
	return v1.SizeText(bytes)
}
