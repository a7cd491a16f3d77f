package doctor

import "time"

const (
	// shortDelay is the maximum duration of a step that usually takes seconds.
	shortDelay = time.Minute
	// long is the maximum duration of a step that usually takes minutes.
	long = 10 * time.Minute
	// endless is the maximum duration of a backup, even of a large instance.
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
