package process

import "syscall"

// dieWithParent makes the kernel kill a child when the thread that started it exits.
func dieWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
