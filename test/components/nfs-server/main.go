// Command nfs-server serves a file system in memory by NFS version 3, to any client, for nodes of
// the lab: its pod is a server that is deleted with its namespace.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"

	"github.com/go-git/go-billy/v5/memfs"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

func main() {
	address := flag.String("address", ":2049", "where to listen, for mounts as well")
	flag.Parse()
	if err := serve(*address); err != nil {
		fmt.Fprintln(os.Stderr, "nfs-server:", err)
		os.Exit(1)
	}
}

// serve returns only if the server fails.
func serve(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return nfs.Serve(listener, helpers.NewCachingHandler(helpers.NewNullAuthHandler(memfs.New()), 1024))
}
