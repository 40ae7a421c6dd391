package probe

import (
	"os"

	"github.com/spf13/pflag"
)

// Flags registers the command line options, with the current values as defaults.
func (o *Options) Flags(flags *pflag.FlagSet) {
	d := o.setDefaults()
	flags.StringVar(&o.Node, "node", os.Getenv("NODE_NAME"), "name of this node in the cluster; NODE_NAME in the environment")
	flags.StringVar(&o.Root, "root", d.Root, "folder with the file system of the node")
	flags.StringVar(&o.Kubelet, "kubelet-dir", d.Kubelet, "the kubelet's directory (its --root-dir)")
	flags.StringVar(&o.Logs, "pod-logs-dir", d.Logs, "directory of the pods' logs")
	flags.StringVar(&o.Runtime, "runtime-socket", d.Runtime, "CRI socket of the container runtime")
	flags.StringVar(&o.RuntimeData, "runtime-dir", d.RuntimeData, "directory of the container runtime")
	flags.IntVar(&o.MaxFiles, "max-files", d.MaxFiles, "maximum number of files in volumes to inspect")
	flags.IntVar(&o.FilesPerSecond, "files-per-second", d.FilesPerSecond, "maximum number of files to inspect per second")
}
