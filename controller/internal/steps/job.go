package steps

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/crossplane-mysql/crossplane-mysql/controller/internal/instance"
)

// HasEnded reports whether a Job has ended, well or not.
func HasEnded(j *instance.Job) bool {
	at, _ := j.Finished()
	return at != nil
}

// FailureOf a Job in words.
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
	return "the Job does not say why"
}

// Volumes of a Job's pod, and where they are in it.
const (
	VolumeData   = "data"
	VolumeBackup = "backup"
	DataPath     = "/" + VolumeData
	BackupPath   = "/" + VolumeBackup
)

// IsRunning is true while a pod of a Job runs.
func IsRunning(j *instance.Job) bool {
	for i := range j.Pods {
		if j.Pods[i].Status.Phase == corev1.PodRunning {
			return true
		}
	}
	return false
}
