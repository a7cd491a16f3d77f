package compose

import "github.com/crossplane-mysql/crossplane-mysql/apis/agent"

// Mount paths in the pods of Jobs.
const (
	dataPath    = "/data"
	archivePath = "/backup"

	passwordPath = "/etc/mysql-root"
	socketsPath  = agent.ToolsPath + "/sockets"
)
