package compose

import "github.com/crossplane-mysql/crossplane-mysql/apis/agent"

// Paths in the pods in which the agent runs.
const (
	dataPath    = "/data"
	archivePath = "/backup"

	passwordPath = "/etc/mysql-root"
	socketsPath  = agent.ToolsPath + "/sockets"
)
