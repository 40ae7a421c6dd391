// Command sampleapiserver is k8s.io/sample-apiserver, an extension API server for
// wardle.example.com, with two differences from its own command. It answers in JSON if a client
// prefers protobuf, because its types have no protobuf form: as published, v0.36.3 fails then with
// a server error, and a namespace with an object that is not deleted at once keeps
// NamespaceDeletionContentFailure. --protobuf restores that. And it does not wait for watches to
// end when it is stopped.
package main

import (
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	"k8s.io/sample-apiserver/pkg/cmd/server"
)

func main() {
	ctx := genericapiserver.SetupSignalContext()
	options := server.NewWardleServerOptions(os.Stdout, os.Stderr)
	cmd := server.NewCommandStartWardleServer(ctx, options, false)
	protobuf := cmd.Flags().Bool("protobuf", false, "offer protobuf, as published")
	cmd.RunE = func(*cobra.Command, []string) error {
		if err := options.Complete(); err != nil {
			return err
		}
		if err := options.Validate(nil); err != nil {
			return err
		}
		config, err := options.Config()
		if err != nil {
			return err
		}
		generic := config.GenericConfig
		if chain := generic.BuildHandlerChainFunc; !*protobuf {
			generic.BuildHandlerChainFunc = func(api http.Handler, c *genericapiserver.Config) http.Handler {
				return withoutProtobuf(chain(api, c))
			}
		}
		s, err := config.Complete().New()
		if err != nil {
			return err
		}
		s.GenericAPIServer.ShutdownTimeout = time.Second
		s.GenericAPIServer.AddPostStartHookOrDie("start-sample-server-informers", func(c genericapiserver.PostStartHookContext) error {
			generic.SharedInformerFactory.Start(c.Done())
			options.SharedInformerFactory.Start(c.Done())
			return nil
		})
		return s.GenericAPIServer.PrepareRun().RunWithContext(ctx)
	}
	os.Exit(cli.Run(cmd))
}

// withoutProtobuf removes protobuf from the content types that a client accepts.
func withoutProtobuf(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted := slices.DeleteFunc(strings.Split(r.Header.Get("Accept"), ","), func(mediaType string) bool {
			return strings.HasPrefix(strings.TrimSpace(mediaType), "application/vnd.kubernetes.protobuf")
		})
		if len(accepted) == 0 {
			accepted = []string{"application/json"}
		}
		r.Header.Set("Accept", strings.Join(accepted, ","))
		next.ServeHTTP(w, r)
	})
}
