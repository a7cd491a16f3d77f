package doctor

import "time"

const (
	// soon is how long the controller may take for what it does within seconds.
	soon = time.Minute
	// long is more than what takes a while should take.
	long = 10 * time.Minute
	// endless is more than a backup that is under way should take, however large it is.
	endless = 24 * time.Hour
)

// Examine what there is of ours in a cluster.
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
