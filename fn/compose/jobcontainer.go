package compose

import "github.com/crossplane-mysql/crossplane-mysql/apis/agent"

// Paths at which the pods of Jobs and the init containers mount volumes, for the commands of the controller's image.
const (
	dataPath    = "/data"
	archivePath = "/backup"

	passwordPath = "/etc/mysql-root"
	socketsPath  = agent.ToolsPath + "/sockets"
)
