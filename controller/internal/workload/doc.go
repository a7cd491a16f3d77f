// Package workload gets temporary credentials for a store by the identity of the pod that this process runs in.
package workload
