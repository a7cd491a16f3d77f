package workload

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// metadataServices are the addresses of the instance metadata services of clouds. They give any pod the credentials of
// its node, which are not meant for backups:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html.
var metadataServices = []netip.Addr{netip.MustParseAddr("169.254.169.254"), netip.MustParseAddr("fd00:ec2::254")}

// errMetadata is returned instead of a connection to the instance metadata service.
var errMetadata = errors.New("this address is the instance metadata service, which is never used")

// Dialer returns a dialer that never connects to the instance metadata service. It checks the address after the name is
// resolved, so a DNS entry cannot lead there.
func Dialer(limit time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: limit, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address)
	}}
}

func checkAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if slices.Contains(metadataServices, a.Addr().Unmap().WithZone("")) {
		return errMetadata
	}
	return nil
}
