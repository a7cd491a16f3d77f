package steps

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// HasEnded reports whether a Job has succeeded or failed.
func HasEnded(j *instance.Job) bool {
	finished, _ := j.Finished()
	return finished != nil
}

// FailureOf describes the failure of a Job.
func FailureOf(j *instance.Job) string {
	switch {
	case j.Report != nil && j.Report.Error != "":
		return j.Report.Error
	case j.PodFailure != "":
		return j.PodFailure
	}
	for _, c := range j.Status.Conditions {
		if c.Message != "" {
			return c.Message
		}
	}
	return "the Job reports no reason"
}

// Names and paths of the volumes in a Job's pod.
const (
	VolumeData   = "data"
	VolumeBackup = "backup"
	DataPath     = "/" + VolumeData
	BackupPath   = "/" + VolumeBackup
)

// IsRunning reports whether a pod of a Job runs.
func IsRunning(j *instance.Job) bool {
	for i := range j.Pods {
		if j.Pods[i].Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}
