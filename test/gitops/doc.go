// Package gitops tests how tools that deploy from Git see the objects of this product. It covers kstatus, which Flux
// and others use, and the health checks for Argo CD in package/argocd.
package gitops
