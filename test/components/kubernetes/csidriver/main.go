// Command csidriver is a CSI driver of the lab's real nodes: its volumes are
// ephemeral, each a mount of its own in memory. It registers with the kubelet as
// every driver does, and leaves its sockets behind when it is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func main() {
	name := flag.String("name", "", "name of the driver")
	node := flag.String("node", "", "name of the node")
	kubelet := flag.String("kubelet", "", "folder of the kubelet")
	flag.Parse()
	if err := run(*name, *node, *kubelet); err != nil {
		fmt.Fprintln(os.Stderr, "csidriver:", err)
		os.Exit(1)
	}
}

// run does not return unless the driver fails.
func run(name, node, kubelet string) error {
	if name == "" || node == "" || kubelet == "" {
		return errors.New("-name, -node and -kubelet are needed")
	}
	d := &driver{name: name, node: node, socket: filepath.Join(kubelet, "plugins", name, "csi.sock")}
	driverServer, registrar := grpc.NewServer(), grpc.NewServer()
	csi.RegisterIdentityServer(driverServer, d)
	csi.RegisterNodeServer(driverServer, d)
	registration.RegisterRegistrationServer(registrar, d)
	failed := make(chan error)
	// The kubelet calls the driver as soon as it sees the registrar's socket.
	for _, s := range []struct {
		server *grpc.Server
		socket string
	}{{driverServer, d.socket}, {registrar, filepath.Join(kubelet, "plugins_registry", name+"-reg.sock")}} {
		if err := os.MkdirAll(filepath.Dir(s.socket), 0o750); err != nil {
			return err
		}
		if err := os.Remove(s.socket); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		listener, err := net.Listen("unix", s.socket)
		if err != nil {
			return err
		}
		go func() { failed <- s.server.Serve(listener) }()
	}
	return <-failed
}

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	name, node, socket string
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, Endpoint: d.socket, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, s *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	fmt.Println("registered:", s.PluginRegistered, s.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "1"}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := os.MkdirAll(r.TargetPath, 0o750); err != nil {
		return nil, err
	}
	return &csi.NodePublishVolumeResponse{}, syscall.Mount("tmpfs", r.TargetPath, "tmpfs", 0, "")
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := syscall.Unmount(r.TargetPath, 0); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, os.RemoveAll(r.TargetPath)
}
