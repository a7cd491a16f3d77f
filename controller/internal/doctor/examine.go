package doctor

import "time"

const (
	// shortDelay is the age after which the doctor reports a step as delayed that usually takes seconds.
	shortDelay = time.Minute
	// long is the age after which the doctor reports a step as delayed that usually takes minutes.
	long = 10 * time.Minute
	// endless is the age after which the doctor reports a running backup as delayed. Even a large backup is faster.
	endless = 24 * time.Hour
)

// Examine checks all objects of the product in a cluster.
func Examine(c *Cluster) *Report {
	x := newIndex(c)
	whole := clusterCheck{x}
	r := &Report{Cluster: whole.examineController(), Instances: []Instance{}, Rest: whole.examineLeftovers()}
	for _, p := range x.inOrder() {
		check := instanceCheck{index: x, subject: p}
		r.Instances = append(r.Instances, check.examineInstance())
	}
	return r
}
