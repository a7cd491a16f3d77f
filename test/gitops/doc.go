// Package gitops tests how GitOps tools see the objects of this product. It covers kstatus, which Flux and other
// tools use, and the Argo CD health checks in package/argocd.
package gitops
